# How everything of ours is compiled, and the functions that turn folders into targets.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# The numeric contract: float32 IEEE arithmetic, nothing contracted into fused operations; never -march or fast-math.
add_compile_options(-Wall -Wextra -Wshadow -Wno-missing-field-initializers -Wno-psabi -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-restrict)  # false alarms about std::string
endif()
if(CRUMB_SANITIZE)
  add_compile_options(-fsanitize=${CRUMB_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${CRUMB_SANITIZE})
endif()
if(CRUMB_FUZZ)  # relative, so that ccache finds the work of another clone
  file(RELATIVE_PATH uncovered ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR}/tests/fuzz/uncovered.txt)
  add_compile_options(-fsanitize-coverage-ignorelist=${uncovered})
endif()

# ccache, told to trust precompiled headers and to find the work of another clone again.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
endif()

# crumb_together(TARGET): most of a translation unit's time goes into headers, so the files of a folder are compiled at most
# this many at a time, as one; names in their anonymous namespaces must differ. Kernels (files of one instruction set)
# and files with definitions of their own stay alone. With 1 every file does, which shows missing includes (preset tsan).
if(NOT DEFINED CRUMB_TOGETHER)  # not in the cache: an old build folder must compile what a fresh clone does
  set(CRUMB_TOGETHER 32)
endif()
function(crumb_together target)
  if(CRUMB_TOGETHER LESS 2)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(folders "")
  foreach(source IN LISTS sources)
    get_filename_component(source ${source} ABSOLUTE)
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${source})
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    if(definitions OR path MATCHES "_(portable|avx2|avx512|vnni|amx|neon)\\.cpp$")
      continue()
    endif()
    get_filename_component(folder ${path} DIRECTORY)
    string(MAKE_C_IDENTIFIER ${folder} folder)
    list(APPEND folders ${folder})
    list(APPEND files_of_${folder} ${source})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    list(LENGTH files_of_${folder} count)
    math(EXPR parts "(${count} + ${CRUMB_TOGETHER} - 1) / ${CRUMB_TOGETHER}")
    set(at 0)
    foreach(source IN LISTS files_of_${folder})
      math(EXPR part "${at} * ${parts} / ${count}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${part})
      math(EXPR at "${at} + 1")
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# The rooms of cmake/rooms.txt, in its order; CRUMB_TORCH_ROOMS, CRUMB_INSIDE_ROOMS and CRUMB_LINKED_ROOMS are
# those with that mark.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/rooms.txt)
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/rooms.txt _lines REGEX "^[a-z]+[a-z ]*:")
foreach(_line IN LISTS _lines)
  string(REGEX MATCH "^[^:]*" _line "${_line}")
  separate_arguments(_line)
  list(POP_FRONT _line _room)
  list(APPEND CRUMB_ROOMS ${_room})
  foreach(_mark IN LISTS _line)
    string(TOUPPER ${_mark} _mark)
    list(APPEND CRUMB_${_mark}_ROOMS ${_room})
  endforeach()
endforeach()

# crumb_room(FOLDER LIBRARIES...): the sources under FOLDER as the static library crumb_<folder>, known outside as
# crumb::<folder>. Includes are written from the root of the repository, and after installation from include/crumb.
function(crumb_room folder)
  if(NOT folder IN_LIST CRUMB_ROOMS)
    message(FATAL_ERROR "${folder} is no room of cmake/rooms.txt")
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  crumb_part(${folder} "${sources}" ${ARGN})
endfunction()

# crumb_part(NAME SOURCES LIBRARIES...): the same for sources that are named; crumb_leave_out takes them out of their room.
function(crumb_part name sources)
  add_library(crumb_${name} STATIC ${sources})
  add_library(crumb::${name} ALIAS crumb_${name})
  set_target_properties(crumb_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(crumb_${name} PUBLIC cxx_std_20)
  target_include_directories(crumb_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/crumb>)
  target_link_libraries(crumb_${name} PUBLIC ${ARGN})
  crumb_together(crumb_${name})
endfunction()

# crumb_sections(TARGETS...): rooms of which the runtime's library takes a part; what it does not use stays out of it.
function(crumb_sections)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections)
  endforeach()
endfunction()

# crumb_structures(TARGETS...): rooms that move structures and texts about rather than numbers; compiling them is what
# takes long.
function(crumb_structures)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endforeach()
endfunction()

# crumb_unfuzzed(TARGETS...): what no fuzz target links is compiled without its counters, which take a quarter of the time.
function(crumb_unfuzzed)
  if(CRUMB_FUZZ)
    foreach(target IN LISTS ARGN)
      # the list of what is not covered is for counters alone
      target_compile_options(${target} PRIVATE -fno-sanitize=fuzzer-no-link -Wno-unused-command-line-argument)
    endforeach()
  endif()
endfunction()

# crumb_leave_out(TARGET FILE): a source under the room's folder that belongs to another target.
function(crumb_leave_out target file)
  get_target_property(sources ${target} SOURCES)
  list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/${file})
  set_target_properties(${target} PROPERTIES SOURCES "${sources}")
endfunction()

# crumb_precompile_torch(TARGET [HEADERS... | FROM ROOM]): LibTorch's headers precompiled; without HEADERS those of another
# room, crumb_qat's, which have what training needs, or crumb_libtorch's, which are ATen. What a translation unit takes at
# the least grows with what is precompiled, used or not: ATen 2 s, crumb_qat's 4 s, all of torch/torch.h 10 s.
# GCC accepts it only where the flags agree, so executables are compiled like libraries. -fpch-preprocess is what ccache
# needs.
function(crumb_precompile_torch target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FROM" "")
  if(NOT arg_FROM)
    set(arg_FROM crumb_qat)
  endif()
  if(arg_UNPARSED_ARGUMENTS)
    target_precompile_headers(${target} PRIVATE ${arg_UNPARSED_ARGUMENTS})
  else()
    target_precompile_headers(${target} REUSE_FROM ${arg_FROM})
  endif()
endfunction()

# crumb_test(NAME [ON_REQUEST] FOLDERS... ROOMS... LIBRARIES libraries...): a doctest executable from the *_test.cpp files
# under the folders; ON_REQUEST: built only as a target that is named.
#
# Tests are compiled without optimization, which takes a third of the time. Functions of headers would then be slow in the
# rooms, too: of several copies of an inline function the linker keeps the first. So the rooms' objects stand before the
# tests', and theirs are kept.
function(crumb_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ON_REQUEST" "" "FOLDERS;ROOMS;LIBRARIES")
  list(TRANSFORM arg_FOLDERS PREPEND ${PROJECT_SOURCE_DIR}/)
  list(TRANSFORM arg_FOLDERS APPEND /*_test.cpp)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${arg_FOLDERS})
  set(first "")
  foreach(room IN LISTS arg_ROOMS)
    list(APPEND first $<TARGET_OBJECTS:crumb_${room}>)
  endforeach()
  if(first)
    add_library(${name}_objects OBJECT EXCLUDE_FROM_ALL ${sources})
    add_executable(${name} ${first} $<TARGET_OBJECTS:${name}_objects>)
    set(compiled ${name}_objects)
    target_compile_options(${compiled} PRIVATE -O0)
  else()
    add_executable(${name} ${sources})
    set(compiled ${name})
    target_compile_options(${compiled} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  crumb_together(${compiled})
  crumb_unfuzzed(${compiled})
  target_link_libraries(${compiled} PRIVATE crumb_test_support ${arg_LIBRARIES})
  target_link_libraries(${name} PRIVATE crumb_test_support ${arg_LIBRARIES})
  if(arg_ON_REQUEST)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  else()
    add_test(NAME ${name} COMMAND ${name})
  endif()
endfunction()
