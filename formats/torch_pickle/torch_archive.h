// The zip archive around a saved object: its pickle, its storages, its byte order.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/zip/zip.h"

namespace crumb {

class TorchArchive {
 public:
  /// A Failure names what the file is instead (old torch, TorchScript, another archive), and damage.
  static Result<TorchArchive> open(std::span<const std::byte> file);

  std::span<const std::byte> pickle() const { return pickle_; }
  bool big_endian() const { return big_endian_; }

  /// The member data/KEY; null where there is none.
  const ZipMember* storage(std::string_view key) const;

 private:
  const ZipMember* find(std::string_view name) const;

  std::vector<ZipMember> members_;  ///< sorted by name
  std::string folder_;              ///< with its '/'
  std::vector<std::byte> pickle_;
  bool big_endian_ = false;
};

}  // namespace crumb
