# powershell.exe -NoProfile -NonInteractive -ExecutionPolicy Bypass -InputFormat None -OutputFormat Text -EncodedCommand
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
[Console]::OutputEncoding = New-Object Text.UTF8Encoding $false
function Say($line) { [Console]::Out.Write("$line`n") }
try {
$a0 = 'C:/llpatch/b8390'
$a1 = 'build'
$a2 = '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'
$a3 = '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'
$a4 = '8'
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
$have = ''
if ([IO.File]::Exists("$a0/.state")) { $have = [IO.File]::ReadAllText("$a0/.state") }
if ([IO.File]::Exists("$a0/build/.ninja_log")) {
	[IO.File]::WriteAllText("$a0/.now", '')
	if ([IO.File]::GetLastWriteTimeUtc("$a0/build/.ninja_log") -gt [IO.File]::GetLastWriteTimeUtc("$a0/.now")) { Remove-Item -Recurse -Force build }
	[IO.File]::Delete("$a0/.now")
}
if ($have -ne "$a2 $a3") {
	$old = @('build')
	if ($have.EndsWith(" $a3")) { $old = @('build/CMakeCache.txt', 'build/CMakeFiles', 'build/build.ninja', 'build/_deps') }
	foreach ($f in $old) { if (Test-Path $f) { Remove-Item -Recurse -Force $f } }
	[IO.File]::WriteAllText("$a0/.state", "$a2 $a3")
}
$start = New-Object Diagnostics.ProcessStartInfo 'powershell.exe'
$start.Arguments = '-NoProfile -NonInteractive -ExecutionPolicy Bypass -InputFormat None -File plan.ps1 -Source src -Build build -Step ' + $a1 + ' -Jobs ' + $a4
$start.UseShellExecute = $false
$start.WorkingDirectory = $a0
$plan = [Diagnostics.Process]::Start($start)
$end = [Console]::OpenStandardInput().BeginRead((New-Object byte[] 1), 0, 1, $null, $null)
while (-not $plan.WaitForExit(200)) {
	if ($end.IsCompleted) {
		& taskkill.exe /T /F /PID $plan.Id | Out-Null
		$plan.WaitForExit()
		exit 143
	}
}
exit $plan.ExitCode
} catch { [Console]::Error.WriteLine("$_"); exit 1 }
exit 0
