# b8833 for win7-vxkex-cuda11.4: checks the patched source and builds it, without llpatch.
#
#   powershell -NoProfile -ExecutionPolicy Bypass -File plan.ps1 [-Source DIR] [-Build DIR] [-Archive FILE] [-Jobs N]
#
# It wants Windows PowerShell 5.1, Visual Studio 2019 with C++, cmake, ninja, nvcc.
# Source is the patched source. Where it is not there it is unpacked from Archive, which on
# a machine with llpatch is made by
#   llpatch apply b8833 win7-vxkex-cuda11.4 -o src
#   tar -czf src.tgz -C src .
# Build gets the programs in Build\bin. The environment may name tools by absolute paths:
# CMAKE, NINJA and so on, and is else the machine's own. -Step configure or -Step build does only that.
# Exit codes: 0 done, 2 the machine lacks something, 3 the source is not the plan's,
# 5 CMake or a compiler failed, 1 anything else.
# patched tree 0316a899e18942722a1afe8ac97a0a9dc7fdcf17
# plan 42ce06e9fc181f9220b69d7f16e866e1ab2f91686e0f1e88c9801a787071c77a
# left out: HTTPS: models by name with -hf, and llama-server with a certificate: the compiler finds no openssl/ssl.h
param(
	[string]$Source = 'llama.cpp-45cac7ca7-llp1',
	[string]$Build = 'build-b8833-win7-vxkex-cuda11.4',
	[string]$Archive = '',
	[ValidateSet('all', 'configure', 'build', 'targets', 'deps', 'cleandead')]
	[string]$Step = 'all',
	[int]$Jobs = 0
)
Set-StrictMode -Version 2
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

function Stop-Plan([int]$code, [string]$text) {
	[Console]::Error.WriteLine('plan.ps1: error: ' + $text)
	exit $code
}

# An argument as a program's command line has it: PowerShell 5.1 loses quotes.
function Format-Argument([string]$text) {
	if ($text -ne '' -and $text -notmatch '[\s"]') { return $text }
	$text = [regex]::Replace($text, '(\\*)"', '$1$1\"')
	$text = [regex]::Replace($text, '(\\+)$', '$1$1')
	return '"' + $text + '"'
}

# Runs a program with this script's own streams and returns its exit code. Whatever ends
# this script ends the program and all that it started.
function Invoke-Program([string]$file, [string[]]$arguments, [string]$folder) {
	$start = New-Object Diagnostics.ProcessStartInfo $file
	$start.Arguments = (@($arguments | ForEach-Object { Format-Argument $_ }) -join ' ')
	$start.UseShellExecute = $false
	$start.WorkingDirectory = $folder
	$process = [Diagnostics.Process]::Start($start)
	$ended = $false
	try {
		while (-not $process.WaitForExit(200)) { }
		$ended = $true
	} finally {
		if (-not $ended) { & taskkill.exe /T /F /PID $process.Id | Out-Null }
	}
	return $process.ExitCode
}

# What a program prints, as text of the given encoding.
function Read-Program([string]$file, [string]$arguments, $encoding) {
	$start = New-Object Diagnostics.ProcessStartInfo $file
	$start.Arguments = $arguments
	$start.UseShellExecute = $false
	$start.CreateNoWindow = $true
	$start.RedirectStandardOutput = $true
	$start.StandardOutputEncoding = $encoding
	$process = [Diagnostics.Process]::Start($start)
	$text = $process.StandardOutput.ReadToEnd()
	$process.WaitForExit()
	return $text
}

# Visual Studio 2019: by its own finder, else at the places where its editions lie.
function Find-Studio {
	$programs = ${env:ProgramFiles(x86)}
	if (-not $programs) { $programs = $env:ProgramFiles }
	$found = @()
	$finder = Join-Path $programs 'Microsoft Visual Studio\Installer\vswhere.exe'
	if (Test-Path -LiteralPath $finder) {
		$want = '-products * -latest -utf8 -version [16.0,17.0) -requires Microsoft.VisualStudio.Component.VC.Tools.x86.x64 -property installationPath'
		$found += @((Read-Program $finder $want ([Text.Encoding]::UTF8)).Split("`n") | ForEach-Object { $_.Trim() })
	}
	foreach ($edition in 'BuildTools', 'Community', 'Professional', 'Enterprise') {
		$found += Join-Path $programs ('Microsoft Visual Studio\2019\' + $edition)
	}
	foreach ($folder in $found) {
		if (-not $folder) { continue }
		$batch = Join-Path $folder 'VC\Auxiliary\Build\vcvars64.bat'
		if (Test-Path -LiteralPath $batch) { return $batch }
	}
	Stop-Plan 2 'Visual Studio 2019 with C++ is not here: neither vswhere.exe nor the folders of its editions lead to a VC\Auxiliary\Build\vcvars64.bat; the Build Tools of that year are enough (workload "Desktop development with C++")'
}

# Takes over what vcvars64.bat sets.
function Import-Studio([string]$batch) {
	$line = '/u /d /s /c "call "' + $batch + '" >nul 2>nul && set"'
	foreach ($entry in (Read-Program $env:ComSpec $line ([Text.Encoding]::Unicode)).Split("`n")) {
		$name, $value = $entry.TrimEnd("`r").Split([char[]]'=', 2)
		if ($name -and $null -ne $value) { [Environment]::SetEnvironmentVariable($name, $value) }
	}
	if ([string]$env:VCToolsVersion -notlike '14.2*') {
		Stop-Plan 2 ($batch + ' set up the tools "' + $env:VCToolsVersion + '", and 14.2x of Visual Studio 2019 is wanted')
	}
}

# A tool by the variable that names it, on the PATH, or in its own folders, of a version
# that is wanted.
function Find-Tool([string]$role, [string[]]$names, [string[]]$folders, [string]$least, [string]$most, [string]$hint) {
	$files = @()
	$named = [Environment]::GetEnvironmentVariable($role.ToUpperInvariant())
	if ($named) {
		$files += $named
	} else {
		foreach ($name in $names) {
			foreach ($command in @(Get-Command -CommandType Application -Name ($name + '.exe') -ErrorAction SilentlyContinue)) { $files += $command.Path }
		}
		foreach ($folder in $folders) {
			if ($folder.StartsWith('$')) {
				$first, $rest = $folder.Substring(1).Split([char[]]'/', 2)
				$value = [Environment]::GetEnvironmentVariable($first)
				if (-not $value) { continue }
				$folder = Join-Path $value ([string]$rest)
			}
			foreach ($name in $names) { $files += Join-Path $folder ($name + '.exe') }
		}
	}
	$why = 'it is not on the PATH'
	if ($folders.Length -gt 0) { $why += ' nor in ' + ($folders -join ', ') }
	foreach ($file in $files) {
		if (-not (Test-Path -LiteralPath $file -PathType Leaf)) {
			if ($named) { $why = $file + ' is not there' }
			continue
		}
		$version = ''
		$text = Read-Program $file '--version' ([Text.Encoding]::UTF8)
		$match = [regex]::Match($text, 'release [0-9.]+, V([0-9]+(\.[0-9]+)+)')
		if (-not $match.Success) { $match = [regex]::Match($text, '\b([0-9]+(\.[0-9]+)+)') }
		if ($match.Success) { $version = $match.Groups[1].Value }
		if (($least -or $most) -and -not $version) {
			$why = $file + ' names no version that can be read'
		} elseif ($least -and (Compare-Version $version $least) -lt 0) {
			$why = $file + ' is version ' + $version + ', and ' + $least + ' or newer is needed'
		} elseif ($most -and (Compare-Version $version $most) -gt 0) {
			$why = $file + ' is version ' + $version + ', and ' + $most + ' is the newest'
		} else {
			return $file
		}
	}
	if ($hint) { $why += '; ' + $hint }
	Stop-Plan 2 ($names[0] + ': ' + $why + '; the variable ' + $role.ToUpperInvariant() + ' may name it')
}

# Below 0 where a version is older than another, as far as that one is written.
function Compare-Version([string]$version, [string]$other) {
	$a = $version.Split('.')
	$b = $other.Split('.')
	for ($i = 0; $i -lt $b.Length; $i++) {
		$x = 0
		if ($i -lt $a.Length) { $x = [long]$a[$i] }
		if ($x -ne [long]$b[$i]) { return $x.CompareTo([long]$b[$i]) }
	}
	return 0
}

# Compares every file with the plan's: git's object id is the SHA-1 of "blob", the size,
# a NUL and the content.
function Test-Source([string]$folder) {
	$want = @{}
	foreach ($line in $files.Split("`n")) {
		$line = $line.TrimEnd("`r")
		if ($line) { $want[[Uri]::UnescapeDataString($line.Substring(41))] = $line.Substring(0, 40) }
	}
	$cut = $folder.TrimEnd('\', '/').Length + 1
	$wrong = @()
	$sha = [Security.Cryptography.SHA1]::Create()
	foreach ($file in [IO.Directory]::GetFiles($folder, '*', 'AllDirectories')) {
		$name = $file.Substring($cut).Replace('\', '/')
		if ($name.StartsWith('.git/') -or $name.StartsWith('.llpatch')) { continue }
		if (-not $want.ContainsKey($name)) { $wrong += $name + ' (not in the tree)'; continue }
		$data = [IO.File]::ReadAllBytes($file)
		$head = [Text.Encoding]::ASCII.GetBytes('blob ' + $data.Length + [char]0)
		$sha.Initialize()
		[void]$sha.TransformBlock($head, 0, $head.Length, $head, 0)
		[void]$sha.TransformFinalBlock($data, 0, $data.Length)
		if ([BitConverter]::ToString($sha.Hash).Replace('-', '').ToLowerInvariant() -ne $want[$name]) { $wrong += $name + ' (changed)' }
		$want.Remove($name)
	}
	foreach ($name in $want.Keys) { $wrong += $name + ' (missing)' }
	if ($wrong.Length -gt 0) {
		$wrong = @($wrong | Sort-Object)
		$shown = ($wrong | Select-Object -First 5) -join ', '
		Stop-Plan 3 ([string]$wrong.Length + ' files in ' + $folder + ' are not those of the patched tree 0316a899e18942722a1afe8ac97a0a9dc7fdcf17: ' + $shown + '; where git wrote them, core.autocrlf must be false')
	}
}

# Unpacks the archive beside the source's place, and renames it when it is whole.
function Expand-Source([string]$archive, [string]$folder) {
	$part = $folder + '.part'
	if (Test-Path -LiteralPath $part) { Remove-Item -Recurse -Force -LiteralPath $part }
	New-Item -ItemType Directory -Force -Path $part | Out-Null
	$code = Invoke-Program (Join-Path $env:SystemRoot 'System32\tar.exe') @('-xf', $archive, '-C', $part) $part
	if ($code -ne 0) {
		Remove-Item -Recurse -Force -LiteralPath $part
		Stop-Plan 3 ($archive + ' could not be unpacked: tar.exe ended with ' + $code)
	}
	Move-Item -LiteralPath $part -Destination $folder
}

# A path from the folder that PowerShell is in, which is not always the process' own.
function Get-FullPath([string]$path) {
	return $ExecutionContext.SessionState.Path.GetUnresolvedProviderPathFromPSPath($path).TrimEnd('\', '/')
}

function Invoke-Plan {
	if (-not [Environment]::Is64BitOperatingSystem -or $PSVersionTable.PSVersion.Major -lt 5) {
		Stop-Plan 2 'it wants 64-bit Windows and Windows PowerShell 5.1'
	}
	$Source = Get-FullPath $Source
	$Build = Get-FullPath $Build
	if ($Source.Contains(';') -or $Build.Contains(';')) { Stop-Plan 2 'a folder with ; in its name would be taken apart by CMake' }
	Import-Studio (Find-Studio)
	$tool = @{}
	$tool['cmake'] = Find-Tool 'cmake' @('cmake') @() '3.18' '' 'Visual Studio''s installer has it as "C++ CMake tools for Windows"'
	$tool['ninja'] = Find-Tool 'ninja' @('ninja') @() '1.10' '' 'Visual Studio''s installer has it as "C++ CMake tools for Windows"'
	$tool['nvcc'] = Find-Tool 'nvcc' @('nvcc') @('$CUDA_PATH_V11_4/bin', '$PROGRAMFILES/NVIDIA GPU Computing Toolkit/CUDA/v11.4/bin') '11.4' '11.4' 'NVIDIA''s installer of CUDA 11.4 for Windows brings it, and no driver or card is needed'
	$free = [math]::Floor((New-Object IO.DriveInfo ([IO.Path]::GetPathRoot($Build))).AvailableFreeSpace / 1048576)
	if ($free -lt 2200 -and -not (Test-Path -LiteralPath (Join-Path $Build 'build.ninja'))) {
		Stop-Plan 2 ('the disk of ' + $Build + ' has ' + $free + ' MiB free, and the build takes about 2200')
	}
	if (-not [IO.Directory]::Exists($Source)) {
		if (-not $Archive) { Stop-Plan 3 ($Source + ' is not there, and -Archive names nothing to make it from; the first lines of this script say how') }
		Expand-Source (Get-FullPath $Archive) $Source
	}
	if ($Step -eq 'all' -or $Step -eq 'configure') { Test-Source $Source }
	[void][IO.Directory]::CreateDirectory($Build)

	# Nothing of the user's own may add to the commands.
	foreach ($name in 'CL', '_CL_', 'LINK', '_LINK_', 'LDFLAGS', 'CMAKE_GENERATOR', 'CMAKE_TOOLCHAIN_FILE', 'CUDAARCHS', 'NVCC_PREPEND_FLAGS', 'NVCC_APPEND_FLAGS') {
		[Environment]::SetEnvironmentVariable($name, $null)
	}
	[Environment]::SetEnvironmentVariable('CFLAGS', '/D_WIN32_WINNT=0x0601 /DWINVER=0x0601 /Brepro')
	[Environment]::SetEnvironmentVariable('CUDAFLAGS', '-D_WIN32_WINNT=0x0601 -DWINVER=0x0601 -DGGML_CUDA_POOL_TRIM_DEFAULT=1')
	[Environment]::SetEnvironmentVariable('CXXFLAGS', '/D_WIN32_WINNT=0x0601 /DWINVER=0x0601 /Brepro')
	[Environment]::SetEnvironmentVariable('GIT_DIR', 'NUL')
	[Environment]::SetEnvironmentVariable('LDFLAGS', '/Brepro')
	[Environment]::SetEnvironmentVariable('NINJA_STATUS', '[%f/%t] ')
	[Environment]::SetEnvironmentVariable('SOURCE_DATE_EPOCH', '1776442631')
	[Environment]::SetEnvironmentVariable('VSLANG', '1033')
	if ($Jobs -le 0) {
		$memory = (Get-CimInstance Win32_OperatingSystem).FreePhysicalMemory / 1024
		$Jobs = [math]::Max(1, [math]::Min([int]$env:NUMBER_OF_PROCESSORS, [math]::Floor($memory / 3000)))
	}
	$configure = @(
	'-G',
	'Ninja',
	'-S',
	$Source,
	'-B',
	$Build,
	'-DBUILD_SHARED_LIBS=ON',
	'-DCMAKE_BUILD_TYPE=Release',
	'-DCMAKE_CUDA_ARCHITECTURES=86-real',
	('-DCMAKE_CUDA_COMPILER=' + $tool['nvcc']),
	'-DCMAKE_CXX_COMPILER=cl',
	'-DCMAKE_C_COMPILER=cl',
	'-DCMAKE_MSVC_RUNTIME_LIBRARY=MultiThreaded',
	'-DGGML_BACKEND_DL=ON',
	'-DGGML_CCACHE=OFF',
	'-DGGML_CPU_ALL_VARIANTS=ON',
	'-DGGML_CUDA=ON',
	'-DGGML_CUDA_NCCL=OFF',
	'-DGGML_CUDA_NO_VMM=ON',
	'-DGGML_NATIVE=OFF',
	'-DGGML_OPENMP=OFF',
	'-DLLAMA_BUILD_COMMIT=45cac7ca7-llp1',
	'-DLLAMA_BUILD_EXAMPLES=OFF',
	'-DLLAMA_BUILD_NUMBER=8833',
	'-DLLAMA_BUILD_TESTS=OFF',
	'-DLLAMA_BUILD_WEBUI=ON',
	'-DLLAMA_OPENSSL=OFF'
	)
	$ninja = $tool['ninja']
	switch ($Step) {
		'targets' { exit (Invoke-Program $ninja @('-C', $Build, '-t', 'targets', 'all') $Source) }
		'deps' { exit (Invoke-Program $ninja @('-C', $Build, '-t', 'deps') $Source) }
		'cleandead' { exit (Invoke-Program $ninja @('-C', $Build, '-t', 'cleandead') $Source) }
	}
	if ($Step -ne 'build') {
		$code = Invoke-Program $tool['cmake'] $configure $Source
		if ($code -ne 0) { Stop-Plan 5 ('CMake ended with ' + $code) }
	}
	if ($Step -ne 'configure') {
		$code = Invoke-Program $ninja (@('-C', $Build, '-j', [string]$Jobs) + @('llama-server', 'llama-cli', 'llama-bench', 'llama-quantize')) $Source
		if ($code -ne 0) { Stop-Plan 5 ('Ninja ended with ' + $code) }
		[Console]::Out.WriteLine((Join-Path $Build 'bin'))
	}
}

# git's id and the path of each file of the patched tree.
$files = @'
3333333333333333333333333333333333333333 Z.h
2222222222222222222222222222222222222222 it%27s%20100%25%20%C3%A9%20%F0%9F%A6%99.txt
1111111111111111111111111111111111111111 src/a%20b.c
'@

try {
	Invoke-Plan
} catch {
	Stop-Plan 1 ([string]$_ + ' (line ' + $_.InvocationInfo.ScriptLineNumber + ')')
}
exit 0
