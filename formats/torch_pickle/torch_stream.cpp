#include "formats/torch_pickle/torch_stream.h"

#include <string>
#include <utility>

#include "base/checked_size.h"
#include "base/files/text.h"

namespace crumb {
namespace {

constexpr std::int64_t kVersion = 1001;
/// Keys are addresses in decimal digits.
constexpr std::size_t kMaxKey = 64;

/// Bytes of the pickled number at the file's start; 0 where it is not there.
std::size_t magic_size(std::string_view file) {
  constexpr std::string_view kMagic = "\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.";
  constexpr std::size_t kProtocol = 2, kFrame = 9;
  if (file.size() < kProtocol || file[0] != '\x80' || file[1] < '\x02' || file[1] > '\x05') return 0;
  const std::size_t begin = kProtocol + (file.substr(kProtocol).starts_with('\x95') ? kFrame : 0);
  return begin < file.size() && file.substr(begin).starts_with(kMagic) ? begin + kMagic.size() : 0;
}

std::string_view first_chars(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<PickleGlobal> no_global(std::string_view name) {
  return Failure{"it asks for " + quote_text(name) +
                 ", expected numbers, strings, lists and dictionaries alone; nothing was run"};
}

/// Reads pickles that lie one behind the other.
class Pickles {
 public:
  Pickles(std::span<const std::byte> file, std::uint64_t at) : file_(file), at_(at) {}

  std::uint64_t at() const { return at_; }

  Result<PickleTree> next(const char* what, FindPickleGlobal find_global) {
    Result<PickleTree> tree = read_leading_pickle(file_.subspan(at_), find_global);
    if (!tree.ok())
      return Failure{std::string(what) + ", pickled from byte " + std::to_string(at_) +
                     " of the file on: " + tree.failure().message};
    at_ += tree.value().byte_size();
    return tree;
  }

 private:
  std::span<const std::byte> file_;
  std::uint64_t at_;
};

Status check_version(const PickleTree& tree) {
  const PickleId root = tree.root();
  if (tree.is(root, PickleKind::kInt) && tree.integer(root) == kVersion) return {};
  return Failure{"the version of the form is " +
                 (tree.is(root, PickleKind::kInt) ? std::to_string(tree.integer(root))
                                                  : std::string(pickle_kind_text(tree.kind(root)))) +
                 ", expected " + std::to_string(kVersion)};
}

Status check_system(const PickleTree& tree) {
  const PickleId root = tree.root();
  if (!tree.is(root, PickleKind::kDict))
    return Failure{"the description of the system is " + std::string(pickle_kind_text(tree.kind(root))) +
                   ", expected a dictionary"};
  for (std::uint32_t item = tree.first(root); item != PickleTree::kEnd;) {
    const PickleId key = tree.value(item);
    item = tree.next(item);
    const PickleId value = tree.value(item);
    item = tree.next(item);
    if (!tree.is(key, PickleKind::kText) || tree.text(key) != "little_endian" || tree.is_true(value))
      continue;
    return Failure{
        "the description of the system says 'little_endian' is " +
        std::string(tree.is(value, PickleKind::kBool) ? "False" : pickle_kind_text(tree.kind(value))) +
        ", expected True: load it by torch.load and save it again with torch.save"};
  }
  return {};
}

Result<std::vector<std::string_view>> read_keys(const PickleTree& tree) {
  const PickleId root = tree.root();
  const auto expected = [&](PickleId found) {
    return Failure{"the list of storages behind the saved object " +
                   std::string(found == root ? "is " : "holds ") +
                   std::string(pickle_kind_text(tree.kind(found))) + ", expected a list of strings"};
  };
  if (!tree.is(root, PickleKind::kList)) return expected(root);
  std::vector<std::string_view> keys;
  for (std::uint32_t item = tree.first(root); item != PickleTree::kEnd; item = tree.next(item)) {
    if (!tree.is(tree.value(item), PickleKind::kText)) return expected(tree.value(item));
    keys.push_back(tree.text(tree.value(item)));
  }
  return keys;
}

std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

}  // namespace

bool looks_like_torch_stream(std::span<const std::byte> start) { return magic_size(first_chars(start)) > 0; }

Result<TorchStream> TorchStream::open(std::span<const std::byte> file) {
  Pickles pickles(file, magic_size(first_chars(file)));
  const Result<PickleTree> version = pickles.next("the version", no_global);
  if (!version.ok()) return version.failure();
  if (const Status status = check_version(version.value()); !status.ok()) return status.failure();
  const Result<PickleTree> system = pickles.next("the description of the system", no_global);
  if (!system.ok()) return system.failure();
  if (const Status status = check_system(system.value()); !status.ok()) return status.failure();

  TorchStream stream;
  Result<PickleTree> object = pickles.next("the saved object", find_torch_global);
  if (!object.ok()) return object.failure();
  stream.tree_ = std::move(object.value());
  if (const Status status = stream.collect_storages(); !status.ok()) return status.failure();
  const Result<PickleTree> list = pickles.next("the list of storages", no_global);
  if (!list.ok()) return list.failure();
  const Result<std::vector<std::string_view>> keys = read_keys(list.value());
  if (!keys.ok()) return keys.failure();
  if (const Status status = stream.place_storages(file, keys.value(), pickles.at()); !status.ok())
    return status.failure();
  return stream;
}

/// Every persistent id, also of what is no tensor: how long a storage is in the file depends on its type.
Status TorchStream::collect_storages() {
  std::vector<bool> is_seen(tree_.node_count());
  for (PickleId id = 0; id < tree_.node_count(); ++id) {
    if (!tree_.is(id, PickleKind::kPersistent)) continue;
    if (is_seen[tree_.persistent(id)]) continue;
    is_seen[tree_.persistent(id)] = true;
    const Result<TorchStorageId> storage = read_storage_id(tree_, id, kIdSize);
    if (!storage.ok()) return Failure{"in the saved object: " + storage.failure().message};
    if (const Status status = add_id(storage.value()); !status.ok()) return status;
  }
  for (const auto& [key, view] : views_)
    if (storages_.contains(key))
      return Failure{"in the saved object: " + quote_text(key) +
                     " is both a storage and a view of the storage " + quote_text(view.key)};
  return {};
}

Status TorchStream::add_id(const TorchStorageId& id) {
  const std::string_view longest = id.view && id.view->key.size() > id.key.size() ? id.view->key : id.key;
  if (longest.size() > kMaxKey)
    return Failure{"in the saved object: the key " + quote_text(longest) + " of a storage takes " +
                   byte_text(longest.size()) + ", at most " + std::to_string(kMaxKey) + " are read"};
  const TorchStorageId& first = storages_.try_emplace(id.key, Held{.id = id}).first->second.id;
  // One that is empty may be of several types.
  const bool is_same = first.count == id.count && first.type->text == id.type->text;
  if (!is_same && (first.bytes > 0 || id.bytes > 0))
    return Failure{"in the saved object: the storage " + quote_text(id.key) + " is of " +
                   std::to_string(first.count) + " elements of " + std::string(first.type->text) +
                   " in one place and of " + std::to_string(id.count) + " of " + std::string(id.type->text) +
                   " in another"};
  if (!id.view) return {};
  const TorchStorageId& known = views_.try_emplace(id.view->key, id).first->second;
  if (known.key != id.key || known.view->first != id.view->first || known.view->count != id.view->count)
    return Failure{"in the saved object: two parts of storages have the key " + quote_text(id.view->key)};
  return {};
}

/// Walks over the storages: only their counts say where the next begins.
Status TorchStream::place_storages(std::span<const std::byte> file, const std::vector<std::string_view>& keys,
                                   std::uint64_t at) {
  constexpr std::uint64_t kCountBytes = 8;
  for (const std::string_view key : keys) {
    const auto found = storages_.find(key);
    if (found == storages_.end())
      return Failure{"the list of storages names " + quote_text(key) +
                     ", which the saved object does not have, so that its size is not known"};
    Held& held = found->second;
    if (held.is_placed) return Failure{"the list of storages names " + quote_text(key) + " twice"};
    const std::string subject = "the storage " + quote_text(key) + " at byte " + std::to_string(at);
    if (!checked::fits(at, kCountBytes, file.size()))
      return Failure{"the file is cut short: it has " + byte_text(file.size()) + ", and " + subject +
                     " begins with a count of " + std::to_string(kCountBytes)};
    const auto count = static_cast<std::int64_t>(little_endian(file.subspan(at, kCountBytes)));
    if (!std::cmp_equal(count, held.id.count))
      return Failure{subject + " has the count " + std::to_string(count) +
                     ", but the saved object says that " + std::to_string(held.id.count) + " elements of " +
                     std::string(held.id.type->text) + " are there"};
    at += kCountBytes;
    if (!checked::fits(at, held.id.bytes, file.size()))
      return Failure{"the file is cut short: " + subject + " takes " + byte_text(held.id.bytes) +
                     " behind its count, of which " + std::to_string(file.size() - at) + " are there"};
    held.offset = at;
    held.is_placed = true;
    at += held.id.bytes;
  }
  if (at != file.size())
    return Failure{"the file goes on for " + byte_text(file.size() - at) +
                   " behind its last storage, at byte " + std::to_string(at) +
                   ", expected its end: perhaps a second object, which is not read"};
  return {};
}

Result<TorchStoragePlace> TorchStream::storage(std::string_view key) const {
  const auto found = storages_.find(key);
  if (found == storages_.end() || !found->second.is_placed)
    return Failure{"is not there: the list of storages behind the saved object does not name it"};
  const Held& held = found->second;
  return TorchStoragePlace{.offset = held.offset, .stored = held.id.bytes, .size = held.id.bytes};
}

}  // namespace crumb
