# powershell.exe -NoProfile -NonInteractive -ExecutionPolicy Bypass -InputFormat None -OutputFormat Text -EncodedCommand
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
[Console]::OutputEncoding = New-Object Text.UTF8Encoding $false
function Say($line) { [Console]::Out.Write("$line`n") }
try {
$a0 = 'C:/llpatch/b8390'
try {
	New-Item -ItemType Directory -Force -Path $a0 | Out-Null
	Set-Location -LiteralPath $a0
} catch { [Console]::Error.WriteLine("$_"); exit 73 }
$os = Get-CimInstance Win32_OperatingSystem
Say ('llpatch-host Windows ' + $env:PROCESSOR_ARCHITECTURE + ' ' + $env:NUMBER_OF_PROCESSORS + ' ' + [math]::Floor($os.FreePhysicalMemory / 1024))
Say (Get-Location).ProviderPath.Replace('\', '/')
} catch { [Console]::Error.WriteLine("$_"); exit 1 }
exit 0
