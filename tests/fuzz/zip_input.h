// Zip archives for the targets that read them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace crumb::testing {

/// A well-formed archive of stored members: (name, bytes).
std::string zip_of(const std::vector<std::pair<std::string, std::string_view>>& members);

/// The input with offsets, counts, sizes and (of stored members) checksums made right wherever its records lie:
/// what a change of the data would otherwise end at.
std::string zip_made_consistent(std::string_view input);

/// Checks what parse_zip promises of an archive, and that its small members are read.
void check_zip(std::span<const std::byte> file);

}  // namespace crumb::testing
