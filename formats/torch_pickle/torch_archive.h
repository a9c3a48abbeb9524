// The zip archive around a saved object: its pickle, its storages, its byte order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/torch_pickle/torch_storages.h"
#include "formats/zip/zip.h"

namespace crumb {

class TorchArchive final : public TorchStorages {
 public:
  /// A Failure names what the file is instead (a bare pickle, TorchScript, another archive), and damage.
  static Result<TorchArchive> open(std::span<const std::byte> file);

  std::span<const std::byte> pickle() const { return pickle_; }

  bool big_endian() const override { return big_endian_; }
  std::uint32_t id_size() const override { return 5; }
  /// The member data/KEY.
  Result<TorchStoragePlace> storage(std::string_view key) const override;

 private:
  const ZipMember* find(std::string_view name) const;

  std::vector<ZipMember> members_;  ///< sorted by name
  std::string folder_;              ///< with its '/'
  std::vector<std::byte> pickle_;
  bool big_endian_ = false;
};

}  // namespace crumb
