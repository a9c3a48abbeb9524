# Finds the ONNX C++ library (checker, shape inference, protobuf messages) that scripts/setup builds, and gives one
# imported target, OnnxLibrary::OnnxLibrary, with the system's protobuf behind it.
include(${CMAKE_CURRENT_LIST_DIR}/CrumbCache.cmake)
set(_root ${CRUMB_CACHE_DIR}/onnx)

# A LibTorch that CMAKE_PREFIX_PATH names carries headers of another protobuf.
set(_ignored ${CMAKE_IGNORE_PATH})
foreach(_place ${CMAKE_PREFIX_PATH} $ENV{CMAKE_PREFIX_PATH})
  if(EXISTS ${_place}/include/torch/csrc/api)
    list(APPEND CMAKE_IGNORE_PATH ${_place}/include)
  endif()
endforeach()
find_package(Protobuf QUIET)
set(CMAKE_IGNORE_PATH ${_ignored})
find_path(OnnxLibrary_INCLUDE_DIR onnx/onnx_pb.h PATHS ${_root}/include NO_DEFAULT_PATH)
foreach(_library onnx onnx_proto)
  find_library(OnnxLibrary_${_library}_LIBRARY ${_library} PATHS ${_root}/lib NO_DEFAULT_PATH)
endforeach()

include(FindPackageHandleStandardArgs)
# Lite messages: full ones are registered by name in libprotobuf, which a program and libcrumb_engine.so, each with messages
# of its own, would do twice.
if(OnnxLibrary_INCLUDE_DIR)
  file(STRINGS ${OnnxLibrary_INCLUDE_DIR}/onnx/onnx-ml.pb.h _lite REGEX "public .*::MessageLite" LIMIT_COUNT 1)
  if(NOT _lite)
    set(OnnxLibrary_INCLUDE_DIR OnnxLibrary_INCLUDE_DIR-NOTFOUND)
    message(STATUS "the ONNX library in ${_root} is of an earlier scripts/setup: run it again")
  endif()
endif()
find_package_handle_standard_args(OnnxLibrary REQUIRED_VARS
  OnnxLibrary_onnx_LIBRARY OnnxLibrary_onnx_proto_LIBRARY OnnxLibrary_INCLUDE_DIR Protobuf_FOUND)
mark_as_advanced(OnnxLibrary_INCLUDE_DIR OnnxLibrary_onnx_LIBRARY OnnxLibrary_onnx_proto_LIBRARY)

if(OnnxLibrary_FOUND AND NOT TARGET OnnxLibrary::OnnxLibrary)
  add_library(OnnxLibrary::proto STATIC IMPORTED)
  set_target_properties(OnnxLibrary::proto PROPERTIES IMPORTED_LOCATION ${OnnxLibrary_onnx_proto_LIBRARY})
  target_link_libraries(OnnxLibrary::proto INTERFACE protobuf::libprotobuf)
  add_library(OnnxLibrary::OnnxLibrary STATIC IMPORTED)
  set_target_properties(OnnxLibrary::OnnxLibrary PROPERTIES IMPORTED_LOCATION ${OnnxLibrary_onnx_LIBRARY})
  target_include_directories(OnnxLibrary::OnnxLibrary SYSTEM INTERFACE ${OnnxLibrary_INCLUDE_DIR})
  target_compile_definitions(OnnxLibrary::OnnxLibrary INTERFACE ONNX_ML=1 ONNX_NAMESPACE=onnx ONNX_USE_LITE_PROTO=1)
  target_link_libraries(OnnxLibrary::OnnxLibrary INTERFACE OnnxLibrary::proto)
endif()
