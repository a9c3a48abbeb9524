# cpack -G DEB: the packages crumb (the command), libcrumb0 (the library), libcrumb-jobs0 (what the command does, as a library)
# and libcrumb-dev (their headers and pkg-config file). They need Debian's own packages only. What needs LibTorch is in none of
# them: Debian 12 has no LibTorch that is new enough.
#
#   cmake --preset release && cmake --build build --target crumb crumb_shared crumb_jobs_shared && cpack -G DEB --config build/CPackConfig.cmake
set(CPACK_PACKAGE_VENDOR "the Crumb authors")
set(CPACK_PACKAGE_CONTACT "the Crumb authors <crumb@localhost>")  # Debian wants an address; whoever distributes has one
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL command library jobs development)
set(CPACK_COMPONENTS_GROUPING IGNORE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(_soname libcrumb${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME crumb)
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "The command: quantizes, exports, verifies and runs neural networks.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${_soname})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "The library: runs networks from packed files, with an interface in C.")
set(_jobs_soname libcrumb-jobs${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_JOBS_PACKAGE_NAME ${_jobs_soname})
set(CPACK_DEBIAN_JOBS_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_JOBS_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_COMPONENT_JOBS_DESCRIPTION "The library of jobs: quantizes as the command does, with an interface in C.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libcrumb-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${_soname} (= ${PROJECT_VERSION}), ${_jobs_soname} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "What is compiled with the libraries: crumb.h, its pkg-config file and crumb_jobs.h.")

# Debian's policy: each package says its licence.
foreach(_pair command:crumb library:${_soname} jobs:${_jobs_soname} development:libcrumb-dev)
  string(REPLACE ":" ";" _pair ${_pair})
  list(GET _pair 0 _component)
  list(GET _pair 1 _name)
  install(FILES NOTICE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${_name} RENAME copyright COMPONENT ${_component})
endforeach()
include(CPack)
