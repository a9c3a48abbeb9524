# cmake --install: the crumb command, and the LibTorch-free libraries for find_package(crumb).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(_config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/crumb)
install(TARGETS crumb RUNTIME)
install(TARGETS crumb_formats crumb_quant crumb_runtime EXPORT crumbTargets)
install(DIRECTORY formats quant runtime DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/crumb FILES_MATCHING PATTERN "*.h")
install(EXPORT crumbTargets NAMESPACE crumb:: DESTINATION ${_config_folder})

configure_package_config_file(cmake/crumbConfig.cmake.in crumbConfig.cmake INSTALL_DESTINATION ${_config_folder})
write_basic_package_version_file(crumbConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/crumbConfig.cmake ${PROJECT_BINARY_DIR}/crumbConfigVersion.cmake
  DESTINATION ${_config_folder})
