// A shared library's file, before it is opened: one that was cut short kills the program that maps it.
#pragma once

#include <filesystem>
#include <string>

namespace crumb::jobs {

/// Why the file is no whole ELF library of 64 bits: too short for what its own header says lies in it. Empty
/// where nothing is known to be wrong, also where there is no such file, and of a name without a folder,
/// which dlopen() looks for. Follows elf(5).
std::string fault_of_library(const std::filesystem::path& path);

}  // namespace crumb::jobs
