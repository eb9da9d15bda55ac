@echo off
rem Starts llama-server. Drop a model (.gguf) onto this file, or in a command prompt:
rem   start-server.cmd MODEL.gguf [up to 8 more options of llama-server]
rem   start-server.cmd -m MODEL.gguf [options of llama-server]
rem Where the variables LLAMA_ARG_... of llama-server are set, they win.
setlocal EnableExtensions DisableDelayedExpansion

rem What this bundle is; llpatch writes these lines.
set "gpu="
set "page="

set "server=%~dp0llama-server.exe"
if not defined LLAMA_ARG_HOST set "LLAMA_ARG_HOST=127.0.0.1"
if not defined LLAMA_ARG_PORT set "LLAMA_ARG_PORT=8080"
rem 0 would be the model's own, which may be more than the memory takes.
if not defined LLAMA_ARG_CTX_SIZE set "LLAMA_ARG_CTX_SIZE=8192"
if defined gpu if not defined LLAMA_ARG_N_GPU_LAYERS set "LLAMA_ARG_N_GPU_LAYERS=99"
set "where=API, and no web page: http://%LLAMA_ARG_HOST%:%LLAMA_ARG_PORT%/v1"
if defined page set "where=Page and API: http://%LLAMA_ARG_HOST%:%LLAMA_ARG_PORT%/"
set "code=1"
set "ran="
if exist "%server%" goto :model
echo llama-server.exe is not beside this file: unpack the whole zip into one folder.
goto :end

:model
set "model=%~1"
if not defined model goto :ask
if "%model:~0,1%"=="-" goto :options
if exist "%model%" goto :run
rem Explorer does not quote a dropped file whose name has an ampersand and no space.
setlocal EnableDelayedExpansion
set "line=!cmdcmdline!"
if not defined line goto :none
set "line=!line:*%~nx0=!"
set "line=!line:"=!"
if not defined line goto :none
set "line=!line:~1!"
if not exist "!line!" goto :none
echo !where!
"!server!" -m "!line!"
if errorlevel 1 pause
rem The other half of the name must not run as a command.
exit

:none
endlocal
echo There is no file "%model%".
goto :end

:ask
set /p "model=Model file (.gguf): "
if not defined model echo No model was given.
if not defined model goto :end
set "model=%model:"=%"
if exist "%model%" goto :run
echo There is no file "%model%".
goto :end

:options
echo %where%
set "ran=1"
"%server%" %*
set "code=%errorlevel%"
goto :end

:run
echo %where%
set "ran=1"
"%server%" -m "%model%" %2 %3 %4 %5 %6 %7 %8 %9
set "code=%errorlevel%"

:end
if defined ran if not "%code%"=="0" echo llama-server.exe ended with %code%: README-WIN7.txt says what to do, under "If it does not work".
if not "%code%"=="0" pause
exit /b %code%
