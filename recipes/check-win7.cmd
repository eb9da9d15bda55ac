@echo off
rem Says whether the programs beside it can run on this Windows 7: what is here, a line
rem each, and then one sentence of advice. It changes nothing. Exit code 0: they can.
rem With /q it does not wait for a key at its end.
setlocal EnableExtensions DisableDelayedExpansion

rem What this bundle is; llpatch writes these lines.
set "system=win7"
set "dlls="
set "driver="
set "cards="

set "here=%~dp0"
pushd "%~dp0"
set "wait=1"
if /i "%~1"=="/q" set "wait="
set "code=1"
set "advice="
rem Windows' own programs, and none of that name that lies about.
set "NoDefaultCurrentDirectoryInExePath=1"
set "sys=%SystemRoot%\System32"
if exist "%SystemRoot%\Sysnative\kernel32.dll" set "sys=%SystemRoot%\Sysnative"
set "nvsmi=%ProgramFiles%\NVIDIA Corporation\NVSMI"
if defined ProgramW6432 set "nvsmi=%ProgramW6432%\NVIDIA Corporation\NVSMI"
set "PATH=%sys%;%PATH%;%nvsmi%"
rem For tests: a folder with these programs, and System32 below it.
if defined CHECK_ROOT set "PATH=%CHECK_ROOT%;%PATH%"
if defined CHECK_ROOT set "sys=%CHECK_ROOT%\System32"

:windows
set "build="
for /f "tokens=1,2*" %%a in ('reg query "HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion" /v CurrentBuildNumber 2^>nul') do if /i "%%a"=="CurrentBuildNumber" set "build=%%c"
set "bits=32"
if /i "%PROCESSOR_ARCHITECTURE%"=="AMD64" set "bits=64"
if /i "%PROCESSOR_ARCHITEW6432%"=="AMD64" set "bits=64"
set "name=build %build%"
if "%build%"=="7600" set "name=7 without Service Pack 1"
if "%build%"=="7601" set "name=7 Service Pack 1"
echo Windows:       %name%, %bits% bits
if "%bits%"=="32" set "advice=These programs are for 64-bit Windows, and this one has 32 bits."
if not defined advice if not defined build set "advice=Which Windows this is cannot be told: reg query does not work here."
if not defined build set "build=0"
if not defined advice if %build% LSS 7600 set "advice=These programs need Windows 7 with Service Pack 1, and this Windows is older."
if not defined advice if %build% EQU 7600 set "advice=Install Service Pack 1 for Windows 7 (KB976932) first."

:files
set "files=0"
set "bad="
set "bads=0"
set "same=0"
set "unread="
set "hashed="
if exist SHA256SUMS for /f "tokens=1*" %%a in (SHA256SUMS) do call :hash "%%a" "%%b"
set "name=%same% as they were packed"
if defined unread if not defined hashed set "name=%files%, not compared: certutil -hashfile does not work here"
if defined bad set "name=not as they were packed:%bad%"
if "%files%"=="0" set "name=not checked: no SHA256SUMS here"
echo Files:         %name%
rem Without a hash nothing is known of a file: certutil may be forbidden, or a virus scanner have it open.
if defined unread if defined hashed echo not compared: %unread%, for which certutil -hashfile gives no hash
if defined unread if not defined hashed if defined bad echo not compared:  the others, for certutil -hashfile does not work here
if %bads% GTR 5 set "bad= %bads% of %files% files"
if not defined advice if defined bad set "advice=Unpack the zip anew into an empty folder, for these are not as they were packed:%bad%; if that comes again, README-WIN7.txt says what to do about a virus scanner."
if not defined advice if "%files%"=="0" set "advice=Unpack the whole zip into one folder and run this file there, because SHA256SUMS is missing."
if "%system%"=="win7" goto :trial
if %build% GTR 7601 goto :driver

:updates
set "name="
findstr /m /l /c:"AddDllDirectory" "%sys%\kernel32.dll" >nul 2>nul
if errorlevel 1 set "name= KB2533623"
findstr /m /l /c:"D2D1CreateDeviceContext" "%sys%\d2d1.dll" >nul 2>nul
if errorlevel 1 set "name=%name% KB2670838"
if defined name echo Updates:       missing%name%
if not defined name echo Updates:       KB2533623 and KB2670838, or what replaced them
if not defined advice if defined name set "advice=Install the Windows updates that VxKex NEXT asks for:%name%."

:vxkex
set "kex="
set "on="
set "off="
for /f "tokens=1,2*" %%a in ('reg query "HKLM\SOFTWARE\VXsoft\VxKex" /v KexDir 2^>nul') do if /i "%%a"=="KexDir" set "kex=%%c"
if not defined kex echo VxKex:         not installed
if not defined advice if not defined kex set "advice=Install VxKex NEXT, and then enable it for llama-server.exe as README-WIN7.txt says."
if not defined kex goto :driver
for %%x in (*.exe) do call :enabled "%%~nxx"
echo VxKex:         in %kex%
if defined on echo enabled for:  %on%
if defined off echo not for:      %off%
call :enabled llama-server.exe
rem The quotes are around the paths, which may hold an ampersand.
if not defined advice if not defined found set advice=Enable VxKex NEXT for the server: "%kex%\KexCfg.exe" /EXE:"%here%llama-server.exe" /ENABLE:TRUE

:driver
set "have="
set "free="
set "total="
for /f "tokens=1-4 delims=," %%a in ('nvidia-smi "--query-gpu=driver_version,memory.free,memory.total,name" "--format=csv,noheader,nounits" 2^>nul') do call :card "%%a" "%%b" "%%c" "%%d"
if not exist "%sys%\nvcuda.dll" echo driver:        none
if not defined advice if not exist "%sys%\nvcuda.dll" set "advice=Install NVIDIA's driver for Windows 7 (474.11 is a late one): nvcuda.dll is not here, so there is no driver with CUDA."
if not exist "%sys%\nvcuda.dll" goto :dlls
if not defined have echo driver:        there, nvidia-smi does not say which
if defined have echo driver:        %have%, this build asks for %driver% or newer
if not defined have goto :dlls
call :older "%have%" "%driver%"
if not defined advice if defined old set "advice=Install a newer NVIDIA driver, %driver% or later (474.11 is a late one for Windows 7): yours is %have%."

:dlls
set "missing="
for %%i in (%dlls%) do call :dll "%%i"
if not defined advice if defined missing set "advice=Put NVIDIA's%missing% beside llama-server.exe: README-WIN7.txt says where they come from."
if defined free echo free VRAM:     %free% of %total% MiB
if not defined free echo free VRAM:     not known

:trial
rem What nothing above can tell: whether the server starts, and which card it sees.
if defined advice goto :advise
if not exist llama-server.exe goto :advise
set "starts="
set "sees="
set "card="
set "fits="
for /f "delims=" %%l in ('.\llama-server.exe --list-devices 2^>^&1') do call :device "%%l"
if not defined starts echo server:        does not start
if not defined starts set "advice=The server does not start: llama-server.exe --list-devices in a command prompt says why, and README-WIN7.txt what to do."
if not defined starts goto :advise
if not defined cards echo server:        starts
if not defined cards goto :advise
if not defined sees echo server:        starts, and sees no card
if not defined sees set "advice=The server would use the processor alone, because it sees no card: run llama-server.exe --list-devices in a command prompt, what it prints says why."
if not defined sees goto :advise
if not defined card echo server:        starts, and sees a card
if defined card echo server:        starts, and sees a card of compute capability %card%
if defined card if not defined fits set "advice=This build has no code for your card: that is of compute capability %card%, and the build is for %cards%."
if defined advice goto :advise
if not defined free goto :advise
if %free% LSS 2048 set "code=0"
if %free% LSS 2048 set "advice=It can run, but other programs hold most of the card's memory: end them, or put fewer layers on it, with start-server.cmd MODEL.gguf -ngl 20."

:advise
if not defined advice set "code=0"
if not defined advice if %build% GTR 7601 set "advice=It can run here, and as this Windows is newer than 7, so can llama.cpp's own packages."
if not defined advice set "advice=It can run here: drop a model (.gguf) onto start-server.cmd."
echo.
echo %advice%
if defined wait pause
exit /b %code%

rem hash SUM FILE: counts the file, or names it in bad, or in unread where there is no hash.
:hash
set "file=%~2"
set "file=%file:/=\%"
set "got="
set /a files+=1
if not exist "%file%" set "bad=%bad% %file%"
if not exist "%file%" set /a bads+=1
if not exist "%file%" exit /b 0
for /f "skip=1 delims=" %%h in ('certutil -hashfile "%file%" SHA256 2^>nul') do if not defined got set "got=%%h"
if not defined got goto :nohash
rem Windows 7 writes a space between bytes. Where certutil fails, it says here why.
set "got=%got:"=%"
if not defined got goto :nohash
set "got=%got: =%"
if not defined got goto :nohash
if "%got:~63,1%"=="" goto :nohash
if not "%got:~64,1%"=="" goto :nohash
for /f "delims=0123456789ABCDEFabcdef" %%h in ("%got%") do set "got="
if not defined got goto :nohash
set "hashed=1"
if /i "%got%"=="%~1" set /a same+=1
if /i "%got%"=="%~1" exit /b 0
set "bad=%bad% %file%"
set /a bads+=1
exit /b 0

:nohash
set "unread=%unread% %file%"
exit /b 0

rem device LINE: looks at one line of what llama-server --list-devices prints.
:device
set "line=%~1"
if not defined line exit /b 0
set "line=%line:"=%"
if not defined line exit /b 0
if "%line:~0,18%"=="Available devices:" set "starts=1"
if "%line:~0,6%"=="  CUDA" set "sees=1"
set "rest=%line:*compute capability =%"
if "%rest%"=="%line%" exit /b 0
for /f "delims=, " %%c in ("%rest%") do call :capability %%c
exit /b 0

rem capability N: one card that the build is for is enough.
:capability
if not defined fits set "card=%~1"
for %%c in (%cards%) do if "%%c"=="%~1" set "fits=1"
exit /b 0

rem enabled NAME: sets found, and puts the name into on or off.
:enabled
set "found="
set "filter="
set "kexdll="
for /f "tokens=1,2*" %%a in ('reg query "HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion\Image File Execution Options\%~1" /s 2^>nul') do call :value "%%a" "%%c" "%here%%~1"
if defined found set "on=%on% %~1"
if not defined found set "off=%off% %~1"
exit /b 0

rem value NAME DATA PROGRAM: VxKex is on where one key has the program's path and KexDll.
:value
set "key=%~1"
set "data=%~2"
if "%key:~0,5%"=="HKEY_" set "filter="
if "%key:~0,5%"=="HKEY_" set "kexdll="
if /i "%key%"=="FilterFullPath" if /i "%data%"=="%~3" set "filter=1"
if /i "%key%"=="VerifierDlls" call :verifier
if defined filter if defined kexdll set "found=1"
exit /b 0

rem verifier looks for KexDll in data, which is names of DLLs here, and else may hold parentheses.
:verifier
for %%d in (%data%) do if /i "%%d"=="kexdll.dll" set "kexdll=1"
exit /b 0

rem card DRIVER FREE TOTAL NAME, in MiB: the one with the most free memory counts.
:card
for /f %%n in ("%~1") do set "have=%%n"
for /f "delims=0123456789." %%n in ("%have%") do set "have="
set "n=%~2"
for /f "delims=0123456789 " %%n in ("%~2") do set "n="
for /f "tokens=*" %%n in ("%~4") do echo card:          %%n
if not defined n exit /b 0
set /a n=n
if not defined free set "free=-1"
if %n% GTR %free% for /f %%t in ("%~3") do set "total=%%t"
if %n% GTR %free% set "free=%n%"
exit /b 0

rem older A B: sets old where version A, such as 474.11, is before B.
:older
set "old="
for /f "tokens=1,2 delims=." %%a in ("%~1") do set /a a=%%a*1000+1%%b
for /f "tokens=1,2 delims=." %%a in ("%~2") do set /a b=%%a*1000+1%%b
if %a% LSS %b% set "old=1"
exit /b 0

rem dll NAME: says where it is.
:dll
set "at="
for %%p in (%~1) do set "at=%%~$PATH:p"
if exist "%~1" set "at=beside the programs"
if not defined at set "missing=%missing% %~1"
if not defined at set "at=not found"
echo %~1: %at%
exit /b 0
