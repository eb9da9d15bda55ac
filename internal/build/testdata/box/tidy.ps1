# powershell.exe -NoProfile -NonInteractive -ExecutionPolicy Bypass -InputFormat None -OutputFormat Text -EncodedCommand
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
[Console]::OutputEncoding = New-Object Text.UTF8Encoding $false
function Say($line) { [Console]::Out.Write("$line`n") }
try {
$a0 = 'C:/llpatch/b8390'
$a1 = 'take-abcdefgh'
$a2 = 'give-abcdefgh.tgz'
Set-Location -LiteralPath $a0
Remove-Item -Recurse -Force -ErrorAction SilentlyContinue $a1, "$a1.tgz", $a2
} catch { [Console]::Error.WriteLine("$_"); exit 1 }
exit 0
