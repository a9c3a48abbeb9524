#include "formats/torch_pickle/torch_archive.h"

#include <algorithm>
#include <optional>

#include "base/files/text.h"
#include "formats/torch_pickle/pickle.h"
#include "formats/torch_pickle/torch_pickle.h"
#include "formats/torch_pickle/torch_stream.h"

namespace crumb {
namespace {

std::string_view chars(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Which other kind of archive the members make; empty where none that is known.
std::string other_archive(const std::vector<ZipMember>& members, std::string_view folder) {
  bool arrays = !members.empty();
  for (const ZipMember& member : members) {
    const std::string_view name = member.name;
    arrays = arrays && name.ends_with(".npy");
    const std::size_t slash = name.find('/');
    const std::string_view inside = slash == std::string_view::npos ? name : name.substr(slash + 1);
    if (!folder.empty() && !name.starts_with(folder)) continue;
    if (inside.starts_with("code/") || inside == "constants.pkl")
      return "a TorchScript archive, which is a program with its weights, expected a state dict: load it "
             "with "
             "torch.jit.load and save its state_dict() with torch.save";
    if (inside.starts_with(".data/extern_modules"))
      return "a torch.package archive, expected a state dict: torch.save(model.state_dict(), ...)";
    if (inside == "archive_format" || inside == "serialized_exported_program.json")
      return "an exported program (torch.export), expected a state dict: "
             "torch.save(program.state_dict, ...)";
  }
  return arrays ? "a NumPy archive (.npz), expected a PyTorch checkpoint" : "";
}

/// The folder of the only NAME/data.pkl, with its '/'; empty where there is none.
Result<std::string> find_folder(const std::vector<ZipMember>& members) {
  constexpr std::string_view kPickle = "data.pkl";
  std::string folder;
  for (const ZipMember& member : members) {
    const std::size_t slash = member.name.find('/');
    if (slash == std::string::npos || std::string_view(member.name).substr(slash + 1) != kPickle) continue;
    if (!folder.empty())
      return Failure{"the archive holds two saved objects, in " + quote_text(folder) + " and " +
                     quote_text(member.name.substr(0, slash + 1)) + ", expected one"};
    folder = member.name.substr(0, slash + 1);
  }
  return folder;
}

/// torch may be told not to compute checksums; it then writes 0.
Result<std::vector<std::byte>> read_member(std::span<const std::byte> file, const ZipMember& member,
                                           std::uint64_t most) {
  return read_zip_member(file, member, most, member.crc != 0);
}

bool is_bare_pickle(std::string_view start) {
  return start.size() >= 2 && start[0] == '\x80' && start[1] >= '\x02' && start[1] <= '\x05';
}

/// Before 0.1.10, a tar archive.
bool is_tar(std::string_view start) {
  constexpr std::size_t kTarMark = 257;
  if (start.size() < kTarMark + 5 || start.substr(kTarMark, 5) != "ustar") return false;
  const std::string_view first = start.substr(0, std::min(start.find('\0'), start.size()));
  for (const std::string_view name : {"storages", "tensors", "pickle", "sys_info"})
    if (first == name || first == "./" + std::string(name)) return true;
  return false;
}

}  // namespace

std::string_view unread_torch_form(std::span<const std::byte> start) {
  if (is_tar(chars(start)))
    return "a PyTorch file in the form from before version 0.1.10 (a tar archive), which is not read: load "
           "it with torch.load and save it again with torch.save";
  if (is_bare_pickle(chars(start)) && !looks_like_torch_stream(start))
    return "a Python pickle that torch.save did not write, which is not read, because a pickle may run any "
           "code: save the state dict with torch.save(model.state_dict(), ...)";
  return "";
}

Result<TorchArchive> TorchArchive::open(std::span<const std::byte> file) {
  const std::string_view text = chars(file);
  if (const std::string_view form = unread_torch_form(file); !form.empty()) return Failure{std::string(form)};
  if (!text.starts_with("PK"))
    return Failure{"the file begins with " + quote_text(text.substr(0, 4)) +
                   ", expected the zip archive that torch.save writes ('PK')"};

  Result<std::vector<ZipMember>> members = parse_zip(file);
  if (!members.ok()) return members.failure();
  TorchArchive archive;
  archive.members_ = std::move(members.value());
  Result<std::string> folder = find_folder(archive.members_);
  if (!folder.ok()) return folder.failure();
  archive.folder_ = std::move(folder.value());
  if (const std::string other = other_archive(archive.members_, archive.folder_); !other.empty())
    return Failure{other};
  std::sort(archive.members_.begin(), archive.members_.end(),
            [](const ZipMember& a, const ZipMember& b) { return a.name < b.name; });
  if (archive.folder_.empty())
    return Failure{
        "the zip archive has no member NAME/data.pkl, which torch.save writes: not a PyTorch checkpoint"};

  if (const ZipMember* order = archive.find("byteorder")) {
    const Result<std::vector<std::byte>> read = read_member(file, *order, 64);
    if (!read.ok()) return read.failure();
    const std::string_view name = chars(read.value());
    if (name != "little" && name != "big")
      return Failure{"the member 'byteorder' is " + quote_text(name) + ", expected 'little' or 'big'"};
    archive.big_endian_ = name == "big";
  }
  Result<std::vector<std::byte>> pickle = read_member(file, *archive.find("data.pkl"), kMaxPickle);
  if (!pickle.ok()) return pickle.failure();
  archive.pickle_ = std::move(pickle.value());
  return archive;
}

const ZipMember* TorchArchive::find(std::string_view name) const {
  const std::string full = folder_ + std::string(name);
  const auto found =
      std::lower_bound(members_.begin(), members_.end(), full,
                       [](const ZipMember& member, const std::string& key) { return member.name < key; });
  return found == members_.end() || found->name != full ? nullptr : &*found;
}

Result<TorchStoragePlace> TorchArchive::storage(std::string_view key) const {
  // No member's name is longer, however long a key a pickle repeats.
  const ZipMember* const member = key.size() > UINT16_MAX ? nullptr : find("data/" + std::string(key));
  if (member == nullptr)
    return Failure{"is not there: the archive has no member 'data/" + std::string(key.substr(0, 40)) + "'"};
  return TorchStoragePlace{member->offset, member->stored, member->size, member->coding, member->crc};
}

}  // namespace crumb
