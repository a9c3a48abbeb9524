# cmake --install: the crumb command, the library that it opens to execute graphs (where LibTorch was found), the
# LibTorch-free libraries for find_package(crumb), and those on LibTorch for find_package(crumb COMPONENTS qat).
# Components: command, library (libcrumb.so), jobs (libcrumb_jobs.so) and development (their headers for C, pkg-config), of which
# cmake/CrumbPackage.cmake makes Debian packages; rooms, which is all of C++; engine.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(_config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/crumb)
set(_own_folder lib/crumb)  # ../lib/crumb from the command: jobs/engines/open_engine.cpp
install(TARGETS crumb RUNTIME COMPONENT command)
install(TARGETS crumb_shared LIBRARY COMPONENT library NAMELINK_COMPONENT development)
install(TARGETS crumb_jobs_shared LIBRARY COMPONENT jobs NAMELINK_COMPONENT development)
install(FILES jobs/c/crumb_jobs.h runtime/crumb.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(FILES LICENSE NOTICE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command)

# pkg-config finds the prefix from where the file lies.
set(_pc_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH CRUMB_PC_PREFIX /prefix/${_pc_folder} /prefix)
string(REGEX REPLACE "/$" "" CRUMB_PC_PREFIX ${CRUMB_PC_PREFIX})
configure_file(cmake/crumb.pc.in crumb.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/crumb.pc DESTINATION ${_pc_folder} COMPONENT development)
if(TARGET crumb_engine)
  set_target_properties(crumb_engine PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS crumb_engine LIBRARY DESTINATION ${_own_folder} COMPONENT engine)
endif()

# Manual pages and completions: the command writes them from its own declarations.
set(_pages ${PROJECT_BINARY_DIR}/pages)
set(_completions bash/crumb zsh/_crumb fish/crumb.fish)
set(_completion_folders bash-completion/completions zsh/site-functions fish/vendor_completions.d)
add_custom_command(TARGET crumb POST_BUILD COMMAND ${CMAKE_COMMAND} -E rm -rf ${_pages}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${_pages}/bash ${_pages}/zsh ${_pages}/fish
  COMMAND $<TARGET_FILE:crumb> man ${_pages}/man > ${_pages}/log)
foreach(_file _folder IN ZIP_LISTS _completions _completion_folders)
  get_filename_component(_shell ${_file} DIRECTORY)
  add_custom_command(TARGET crumb POST_BUILD
    COMMAND $<TARGET_FILE:crumb> completion ${_shell} > ${_pages}/${_file})
  install(FILES ${_pages}/${_file} DESTINATION ${CMAKE_INSTALL_DATADIR}/${_folder} COMPONENT command)
endforeach()
install(DIRECTORY ${_pages}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME rooms)
# A request, a report and what these are made of; the rest of jobs/ is its own.
set(CRUMB_JOBS_HEADERS calibrate.h evaluate.h evaluate_layer.h language_training.h merge.h model_options.h observer.h quantize.h recover.h report_file.h
  score.h sweep.h)
set(_rooms ${CRUMB_ROOMS})
list(REMOVE_ITEM _rooms ${CRUMB_INSIDE_ROOMS} ${CRUMB_TORCH_ROOMS})
list(TRANSFORM _rooms PREPEND crumb_ OUTPUT_VARIABLE _libraries)
install(TARGETS ${_libraries} crumb_ir crumb_language EXPORT crumbTargets)
if(TARGET crumb_qat)
  set(_torch_rooms ${CRUMB_TORCH_ROOMS})
  list(REMOVE_ITEM _torch_rooms ${CRUMB_INSIDE_ROOMS})
  list(APPEND _rooms ${_torch_rooms})
  list(TRANSFORM _torch_rooms PREPEND crumb_)
  install(TARGETS ${_torch_rooms} EXPORT crumbTorchTargets)
  install(EXPORT crumbTorchTargets NAMESPACE crumb:: DESTINATION ${_config_folder})
  install(FILES cmake/FindLibTorch.cmake cmake/CrumbCache.cmake DESTINATION ${_config_folder})
endif()
list(REMOVE_ITEM _rooms ${CRUMB_LINKED_ROOMS})
foreach(_room ${_rooms})
  install(DIRECTORY ${_room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/crumb FILES_MATCHING PATTERN "*.h"
    REGEX "graph/onnx/(to_proto|local_functions)\\.h$" EXCLUDE  # these show protobuf
    REGEX "ptq/.*\\.h$" EXCLUDE  # many show Eigen; run_stages() is all that others call
    REGEX "jobs/" EXCLUDE)
endforeach()
install(FILES ptq/stages.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/crumb/ptq)
list(TRANSFORM CRUMB_JOBS_HEADERS PREPEND jobs/ OUTPUT_VARIABLE _jobs_headers)
install(FILES ${_jobs_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/crumb/jobs)
install(EXPORT crumbTargets NAMESPACE crumb:: DESTINATION ${_config_folder})

# crumb_graph needs the ONNX library, which is built for Crumb and found nowhere else.
install(FILES ${OnnxLibrary_onnx_LIBRARY} ${OnnxLibrary_onnx_proto_LIBRARY} DESTINATION ${_own_folder})

configure_package_config_file(cmake/crumbConfig.cmake.in crumbConfig.cmake INSTALL_DESTINATION ${_config_folder})
write_basic_package_version_file(crumbConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/crumbConfig.cmake ${PROJECT_BINARY_DIR}/crumbConfigVersion.cmake
  DESTINATION ${_config_folder})
