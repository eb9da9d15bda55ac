# powershell.exe -NoProfile -NonInteractive -ExecutionPolicy Bypass -InputFormat None -OutputFormat Text -EncodedCommand
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
[Console]::OutputEncoding = New-Object Text.UTF8Encoding $false
function Say($line) { [Console]::Out.Write("$line`n") }
try {
$a0 = 'C:/llpatch/b8390'
Say (New-Object IO.DriveInfo ([IO.Path]::GetPathRoot($a0))).AvailableFreeSpace
} catch { [Console]::Error.WriteLine("$_"); exit 1 }
exit 0
