# Where scripts/setup keeps LibTorch and the ONNX library: sets CRUMB_CACHE_DIR, by the same rule as the script.
if(DEFINED ENV{CRUMB_CACHE})
  set(CRUMB_CACHE_DIR "$ENV{CRUMB_CACHE}")
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(CRUMB_CACHE_DIR "$ENV{XDG_CACHE_HOME}/crumb")
else()
  set(CRUMB_CACHE_DIR "$ENV{HOME}/.cache/crumb")
endif()
