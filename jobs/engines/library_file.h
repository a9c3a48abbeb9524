// Checks a shared library's file before it is opened: a truncated one kills the program that maps it.
#pragma once

#include <filesystem>
#include <string>

namespace crumb::jobs {

/// Returns why the file is no whole 64-bit ELF library: it is shorter than its own header says. Returns ""
/// where no fault is known, where there is no such file, and for a name without a folder, which dlopen()
/// searches for. Follows elf(5).
std::string fault_of_library(const std::filesystem::path& path);

}  // namespace crumb::jobs
