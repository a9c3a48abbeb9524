# What crosses between the crumb program and the engine's library, which are opened at run time and must have been built
# from the same declarations.

# crumb_includes(OUT ROOT FILES...): the files under ROOT that FILES include, directly or not, FILES among them, sorted.
# Includes are written from ROOT; what does not lie under it is not ours.
function(crumb_includes out root)
  cmake_policy(SET CMP0057 NEW)  # IN_LIST, where no project asked for it
  set(todo ${ARGN})
  set(seen ${ARGN})
  while(todo)
    list(POP_FRONT todo file)
    file(STRINGS ${root}/${file} lines REGEX "^[ \t]*#[ \t]*include[ \t]*[\"<]")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^[ \t]*#[ \t]*include[ \t]*[\"<]([^\">]+).*" "\\1" name "${line}")
      if(NOT name IN_LIST seen AND EXISTS ${root}/${name} AND NOT IS_DIRECTORY ${root}/${name})
        list(APPEND seen ${name})
        list(APPEND todo ${name})
      endif()
    endforeach()
  endwhile()
  list(SORT seen)
  set(${out} ${seen} PARENT_SCOPE)
endfunction()

# crumb_interface(HASH FILES ROOT ENDS... ROOMS rooms...): a hash of the declarations that both sides must agree on, and
# the files that hold them, paths from ROOT. They are what ENDS, the sources at the two ends, include; and every header of
# ROOMS, which both sides link: the library's code calls the program's copy of them, by any of their headers.
function(crumb_interface hash files root)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "" "ROOMS")
  set(from ${arg_UNPARSED_ARGUMENTS})
  foreach(room IN LISTS arg_ROOMS)
    file(GLOB_RECURSE headers RELATIVE ${root} ${root}/${room}/*.h)
    list(APPEND from ${headers})
  endforeach()
  list(REMOVE_DUPLICATES from)
  crumb_includes(found ${root} ${from})
  set(declarations "")
  foreach(file IN LISTS found)
    file(SHA256 ${root}/${file} one)
    string(APPEND declarations "${file} ${one}\n")
  endforeach()
  string(SHA256 declarations "${declarations}")
  set(${hash} ${declarations} PARENT_SCOPE)
  set(${files} ${found} PARENT_SCOPE)
endfunction()
