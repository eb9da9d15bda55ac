@echo off
rem Prints the address of the newest archive here that runs on this Windows and nothing else, or on
rem standard error one sentence why none does. It changes nothing. Exit code 0: there is one, 1: there is none.
rem llpatch publish wrote it; what it knows of each archive is what check-win7.cmd inside knows.
setlocal EnableExtensions DisableDelayedExpansion
set "NoDefaultCurrentDirectoryInExePath=1"
set "sys=%SystemRoot%\System32"
if exist "%SystemRoot%\Sysnative\kernel32.dll" set "sys=%SystemRoot%\Sysnative"
set "nvsmi=%ProgramFiles%\NVIDIA Corporation\NVSMI"
if defined ProgramW6432 set "nvsmi=%ProgramW6432%\NVIDIA Corporation\NVSMI"
set "PATH=%sys%;%PATH%;%nvsmi%"
rem For tests: a folder with these programs, and System32 below it.
if defined CHECK_ROOT set "PATH=%CHECK_ROOT%;%PATH%"
if defined CHECK_ROOT set "sys=%CHECK_ROOT%\System32"
set "build=0"
for /f "tokens=1,2*" %%a in ('reg query "HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion" /v CurrentBuildNumber 2^>nul') do if /i "%%a"=="CurrentBuildNumber" set "build=%%c"
set "bits=32"
if /i "%PROCESSOR_ARCHITECTURE%"=="AMD64" set "bits=64"
if /i "%PROCESSOR_ARCHITEW6432%"=="AMD64" set "bits=64"
set "kex="
for /f "tokens=1,2*" %%a in ('reg query "HKLM\SOFTWARE\VXsoft\VxKex" /v KexDir 2^>nul') do if /i "%%a"=="KexDir" set "kex=%%c"
set "have="
for /f "delims=," %%a in ('nvidia-smi "--query-gpu=driver_version" "--format=csv,noheader" 2^>nul') do for /f %%n in ("%%a") do set "have=%%n"
for /f "delims=0123456789." %%n in ("%have%") do set "have="
set "caps="
for /f %%a in ('nvidia-smi "--query-gpu=compute_cap" "--format=csv,noheader" 2^>nul') do call :cap "%%a"
set "found="
set "why="
archives-here
if not defined found if not defined why set "why=None of the archives here is for Windows."
if not defined found >&2 echo %why%
if not defined found exit /b 1
for %%u in (%found%) do echo %%u
exit /b 0

rem cap N: a compute capability, as drivers from 510 on tell it.
:cap
set "n=%~1"
for /f "delims=0123456789." %%n in ("%n%") do set "n="
if defined n set "caps=%caps% %n%"
exit /b 0

rem try NAME ADDRESSES SYSTEM CARDS DRIVER DLLS: the first that runs here is the answer.
:try
if defined found exit /b 0
set "no="
set "cards=%~4"
set "dlls=%~6"
if "%bits%"=="32" set "no=it is for 64-bit Windows, and this one has 32 bits"
if not defined no if %build% LSS 7601 set "no=it needs Windows 7 with Service Pack 1 or newer"
if not defined no if "%~3"=="win7-vxkex" if %build% EQU 7601 if not defined kex set "no=it needs VxKex NEXT, which is not installed"
if defined no goto :said
if "%~5"=="" goto :said
if not exist "%sys%\nvcuda.dll" set "no=it is for NVIDIA's cards, and no driver of theirs is here"
if defined no goto :said
if defined have call :older "%have%" "%~5"
if defined have if defined old set "no=it needs NVIDIA's driver %~5 or newer, and this is %have%"
if defined no goto :said
if defined caps if defined cards call :fits
if defined no goto :said
for %%i in (%dlls%) do call :dll "%%i"
:said
if not defined no set "found=%~2"
if defined no if not defined why set "why=None of the archives here fits. %~1: %no%."
exit /b 0

:fits
set "no=it has no code for a card of compute capability%caps%"
for %%a in (%caps%) do for %%b in (%cards%) do if "%%a"=="%%b" set "no="
exit /b 0

:dll
set "lies="
for %%p in (%~1) do set "lies=%%~$PATH:p"
if not defined lies set "no=it needs NVIDIA's %~1, which is not here"
exit /b 0

rem older A B: sets old where version A, such as 474.11, is before B.
:older
set "old="
for /f "tokens=1,2 delims=." %%a in ("%~1") do set /a a=%%a*1000+1%%b
for /f "tokens=1,2 delims=." %%a in ("%~2") do set /a b=%%a*1000+1%%b
if %a% LSS %b% set "old=1"
exit /b 0
