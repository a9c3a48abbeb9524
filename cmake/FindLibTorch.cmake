# Finds LibTorch by its include and lib folders and gives one imported target, LibTorch::LibTorch.
#
# Looked for in, first found wins:
#   1. CMAKE_PREFIX_PATH (variable or environment): an unpacked libtorch, a Python environment's site-packages/torch,
#      or its share/cmake folder (what torch.utils.cmake_prefix_path prints);
#   2. the torch package of the Python environment that scripts/setup makes.
#
# LibTorch's own TorchConfig.cmake is not used: it insists on a CUDA toolkit when the package is a CUDA build, of which this
# project needs nothing: its operators on a GPU come with libtorch_cuda, which is linked where it lies beside the others.
# LibTorch's include folder carries old google/protobuf headers: never link a target that sees protobuf with this one.
include(${CMAKE_CURRENT_LIST_DIR}/CrumbCache.cmake)

set(_roots ${CMAKE_PREFIX_PATH})
string(REPLACE ":" ";" _environment_roots "$ENV{CMAKE_PREFIX_PATH}")
list(APPEND _roots ${_environment_roots})
list(TRANSFORM _roots REPLACE "/share/cmake/?(Torch/?)?$" "")
file(GLOB _packages ${CRUMB_CACHE_DIR}/python/lib/python3.*/site-packages/torch)
list(APPEND _roots ${_packages})

find_path(LibTorch_INCLUDE_DIR torch/csrc/api/include/torch/torch.h
  PATHS ${_roots} PATH_SUFFIXES include NO_DEFAULT_PATH)
cmake_path(GET LibTorch_INCLUDE_DIR PARENT_PATH _root)
foreach(_library torch_cpu c10 torch_cuda)
  find_library(LibTorch_${_library}_LIBRARY ${_library} PATHS ${_root}/lib NO_DEFAULT_PATH)
endforeach()

set(LibTorch_VERSION)
foreach(_header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
  if(NOT LibTorch_VERSION AND EXISTS ${LibTorch_INCLUDE_DIR}/${_header})
    file(READ ${LibTorch_INCLUDE_DIR}/${_header} _text)
    if(_text MATCHES "define TORCH_VERSION [ \\\\\n]*\"([0-9.]+)")
      set(LibTorch_VERSION ${CMAKE_MATCH_1})
    endif()
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_torch_cpu_LIBRARY LibTorch_c10_LIBRARY LibTorch_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION)
mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_torch_cpu_LIBRARY LibTorch_c10_LIBRARY
  LibTorch_torch_cuda_LIBRARY)

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::c10 SHARED IMPORTED)
  set_target_properties(LibTorch::c10 PROPERTIES IMPORTED_LOCATION ${LibTorch_c10_LIBRARY})
  add_library(LibTorch::LibTorch SHARED IMPORTED)
  set_target_properties(LibTorch::LibTorch PROPERTIES IMPORTED_LOCATION ${LibTorch_torch_cpu_LIBRARY})
  target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE
    ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include)
  target_compile_definitions(LibTorch::LibTorch INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
  target_link_libraries(LibTorch::LibTorch INTERFACE LibTorch::c10)
  if(LibTorch_torch_cuda_LIBRARY)
    # It registers its operators when it is loaded, and nothing refers to it; the CUDA libraries that it needs are found when
    # the program runs.
    target_link_libraries(LibTorch::LibTorch INTERFACE
      -Wl,--no-as-needed ${LibTorch_torch_cuda_LIBRARY} -Wl,--as-needed -Wl,--allow-shlib-undefined)
  endif()
endif()
