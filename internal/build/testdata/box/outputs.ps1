# powershell.exe -NoProfile -NonInteractive -ExecutionPolicy Bypass -InputFormat None -OutputFormat Text -EncodedCommand
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
[Console]::OutputEncoding = New-Object Text.UTF8Encoding $false
function Say($line) { [Console]::Out.Write("$line`n") }
try {
$a0 = 'C:/llpatch/b8390'
Set-Location -LiteralPath $a0
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
Say 'llpatch-list'
Set-Location build
List 'bin'
} catch { [Console]::Error.WriteLine("$_"); exit 1 }
exit 0
