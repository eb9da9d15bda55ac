package build

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf16"
)

// box builds on a Windows machine, with what Windows 10 1803 and Server 2019 bring:
// PowerShell 5.1, tar.exe and OpenSSH's server. That server's shell is cmd.exe, or
// PowerShell where somebody set that: an encoded command means the same to both.
var box = remoteSystem{
	os: "windows",
	hello: func(dir string) string {
		return power(`try {
	New-Item -ItemType Directory -Force -Path $a0 | Out-Null
	Set-Location -LiteralPath $a0
} catch { [Console]::Error.WriteLine("$_"); exit `+remoteNoFolder+` }
$os = Get-CimInstance Win32_OperatingSystem
Say ('`+helloWord+` Windows ' + $env:PROCESSOR_ARCHITECTURE + ' ' + $env:NUMBER_OF_PROCESSORS + ' ' + [math]::Floor($os.FreePhysicalMemory / 1024))
Say (Get-Location).ProviderPath.Replace('\', '/')`, dir)
	},
	list: func(dir string) string {
		return power(`New-Item -ItemType Directory -Force -Path $a0 | Out-Null
`+boxList+`
foreach ($top in 'src', 'plan.ps1') { List $top }`, dir)
	},
	room: func(dir string) string {
		return power(`Say (New-Object IO.DriveInfo ([IO.Path]::GetPathRoot($a0))).AvailableFreeSpace`, dir)
	},
	take: func(dir, run, sum string) string {
		// Empty folders go: one would be in the way of a file, or keep its name where that
		// is now written with other capitals, as Windows does not tell the two apart.
		return power(boxLock+`
try {
	$old = (Get-Date).AddHours(-1)
	foreach ($f in (Get-ChildItem -Force -LiteralPath $a0)) { if ($f.Name -match '^(take|give)' -and $f.LastWriteTime -lt $old) { Remove-Item -Recurse -Force -LiteralPath $f.FullName } }
	if ((Get-FileHash -LiteralPath "$a1`+archiveEnd+`" -Algorithm SHA256).Hash -ne $a2) { throw 'the copy arrived damaged' }
	New-Item -ItemType Directory $a1 | Out-Null
	& tar.exe -xmzf "$a1`+archiveEnd+`" -C $a1
	if ($LASTEXITCODE -ne 0) { throw 'tar.exe could not unpack the copy' }
	$gone = Join-Path $a0 "$a1/`+removeFile+`"
	if ([IO.File]::Exists($gone)) {
		foreach ($f in [IO.File]::ReadAllText($gone).Split([char]0)) { if ($f -ne '' -and (Test-Path -LiteralPath $f)) { Remove-Item -Recurse -Force -LiteralPath $f } }
		[IO.File]::Delete($gone)
	}
	if ([IO.Directory]::Exists("$a0/src")) {
		foreach ($d in ([IO.Directory]::GetDirectories("$a0/src", '*', 'AllDirectories') | Sort-Object Length -Descending)) {
			if ([IO.Directory]::GetFileSystemEntries($d).Length -eq 0) { Remove-Item -Force -LiteralPath $d }
		}
	}
	$top = (Join-Path $a0 $a1) + '\'
	foreach ($f in [IO.Directory]::GetFiles($top, '*', 'AllDirectories')) {
		$to = Join-Path $a0 $f.Substring($top.Length)
		[void][IO.Directory]::CreateDirectory([IO.Path]::GetDirectoryName($to))
		if (Test-Path -LiteralPath $to) { Remove-Item -Recurse -Force -LiteralPath $to }
		[IO.File]::Move($f, $to)
	}
} finally {
	Remove-Item -Recurse -Force -ErrorAction SilentlyContinue $a1, "$a1`+archiveEnd+`"
}`, dir, takeName(run), sum)
	},
	step: func(dir, name, key, compilers string, jobs int) string {
		return power(boxStep, dir, name, key, compilers, strconv.Itoa(jobs))
	},
	outputs: func(dir string) string {
		return power(boxList+`
Set-Location build
List 'bin'`, dir)
	},
	give: func(dir, run string, names []string) string {
		return power(boxLock+`
& tar.exe -czf $a1 -C build @($a2.Split('|'))
if ($LASTEXITCODE -ne 0) { Remove-Item -Force -ErrorAction SilentlyContinue $a1; throw 'tar.exe could not pack the programs' }
Say ((Get-FileHash -LiteralPath $a1 -Algorithm SHA256).Hash.ToLowerInvariant() + '  -')`, dir, giveName(run)+
			archiveEnd, strings.Join(names, "|"))
	},
	tidy: func(dir, run string) string {
		return power(`Set-Location -LiteralPath $a0
Remove-Item -Recurse -Force -ErrorAction SilentlyContinue $a1, "$a1`+archiveEnd+`", $a2`, dir, takeName(run),
			giveName(run)+archiveEnd)
	},
}

// power is a command that has Windows PowerShell 5.1 run a script, whose arguments are
// $a0, $a1 and so on, and end with 1 where it throws. Standard input stays unread: else
// PowerShell takes it, and a program that it starts would get none.
func power(script string, args ...string) string {
	var b strings.Builder
	b.WriteString(`$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
[Console]::OutputEncoding = New-Object Text.UTF8Encoding $false
function Say($line) { [Console]::Out.Write("$line` + "`n" + `") }
try {
`)
	for i, a := range args {
		b.WriteString("$a" + strconv.Itoa(i) + " = " + psQuote(a) + "\n")
	}
	b.WriteString(script)
	b.WriteString("\n} catch { [Console]::Error.WriteLine(\"$_\"); exit 1 }\nexit 0\n")
	units := utf16.Encode([]rune(b.String()))
	le := make([]byte, 0, 2*len(units))
	for _, u := range units {
		le = append(le, byte(u), byte(u>>8))
	}
	return "powershell.exe -NoProfile -NonInteractive -ExecutionPolicy Bypass -InputFormat None -OutputFormat Text " +
		"-EncodedCommand " +
		base64.StdEncoding.EncodeToString(le)
}

// boxList defines List NAME: what listing reads.
const boxList = `Set-Location -LiteralPath $a0
function List([string]$name) {
	$path = Join-Path (Get-Location).ProviderPath $name
	$files = @()
	if ([IO.Directory]::Exists($path)) { $files = [IO.Directory]::GetFiles($path, '*', 'AllDirectories') }
	elseif ([IO.File]::Exists($path)) { $files = @($path) }
	$cut = (Get-Location).ProviderPath.TrimEnd('\').Length + 1
	$sha = [Security.Cryptography.SHA256]::Create()
	foreach ($f in $files) {
		$in = [IO.File]::OpenRead($f)
		try { $sum = [BitConverter]::ToString($sha.ComputeHash($in)).Replace('-', '').ToLowerInvariant() } finally { $in.Close() }
		Say ($sum + ' *' + $f.Substring($cut).Replace('\', '/'))
	}
}
Say '` + listWord + `'`

// boxLock is lockRemote; $lock stays open until the command ends.
const boxLock = `Set-Location -LiteralPath $a0
[Environment]::CurrentDirectory = $a0
$until = (Get-Date).AddSeconds(12)
$lock = $null
while ($null -eq $lock) {
	try { $lock = [IO.File]::Open("$a0/.lock", 'OpenOrCreate', 'ReadWrite', 'None') }
	catch [IO.IOException] {
		if ((Get-Date) -gt $until) { [Console]::Error.WriteLine("another llpatch is at work in $a0"); exit 75 }
		Start-Sleep -Milliseconds 200
	}
}`

// boxStep is stepScript.
const boxStep = boxLock + `
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
exit $plan.ExitCode`
