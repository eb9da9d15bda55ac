# powershell.exe -NoProfile -NonInteractive -ExecutionPolicy Bypass -InputFormat None -OutputFormat Text -EncodedCommand
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
[Console]::OutputEncoding = New-Object Text.UTF8Encoding $false
function Say($line) { [Console]::Out.Write("$line`n") }
try {
$a0 = 'C:/llpatch/b8390'
$a1 = 'give-abcdefgh.tgz'
$a2 = 'bin/a.exe|bin/b.dll'
Set-Location -LiteralPath $a0
[Environment]::CurrentDirectory = $a0
$until = (Get-Date).AddSeconds(12)
$lock = $null
while ($null -eq $lock) {
	try { $lock = [IO.File]::Open("$a0/.lock", 'OpenOrCreate', 'ReadWrite', 'None') }
	catch [IO.IOException] {
		if ((Get-Date) -gt $until) { [Console]::Error.WriteLine("another llpatch is at work in $a0"); exit 75 }
		Start-Sleep -Milliseconds 200
	}
}
& tar.exe -czf $a1 -C build @($a2.Split('|'))
if ($LASTEXITCODE -ne 0) { Remove-Item -Force -ErrorAction SilentlyContinue $a1; throw 'tar.exe could not pack the programs' }
Say ((Get-FileHash -LiteralPath $a1 -Algorithm SHA256).Hash.ToLowerInvariant() + '  -')
} catch { [Console]::Error.WriteLine("$_"); exit 1 }
exit 0
