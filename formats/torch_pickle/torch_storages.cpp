#include "formats/torch_pickle/torch_storages.h"

#include <string>
#include <vector>

#include "base/checked_size.h"
#include "base/files/text.h"

namespace crumb {
namespace {

/// None where it is no natural number.
checked::Size natural(const PickleTree& tree, PickleId id) {
  return tree.is(id, PickleKind::kInt) ? checked::add(tree.integer(id), 0) : checked::Size();
}

/// The items of a tuple of `size` items; none where it is none.
std::vector<PickleId> items(const PickleTree& tree, PickleId id, std::uint32_t size) {
  std::vector<PickleId> values;
  if (!tree.is(id, PickleKind::kTuple) || tree.size(id) != size) return values;
  for (std::uint32_t item = tree.first(id); item != PickleTree::kEnd; item = tree.next(item))
    values.push_back(tree.value(item));
  return values;
}

Result<TorchStorageId::View> read_view(const PickleTree& tree, PickleId id, std::uint64_t held,
                                       const std::string& subject) {
  const std::vector<PickleId> values = items(tree, id, 3);
  if (values.empty() || !tree.is(values[0], PickleKind::kText))
    return damaged_pickle("a storage's view is no tuple of a key, an offset and a size");
  const checked::Size first = natural(tree, values[1]), count = natural(tree, values[2]);
  if (!first || !count)
    return damaged_pickle("a storage's view has an offset or size that is no natural number");
  if (!checked::fits(first, count, held))
    return Failure{subject + " has " + std::to_string(held) + " elements, which the view " +
                   quote_text(tree.text(values[0])) + " of " + std::to_string(*count) + " elements from " +
                   std::to_string(*first) + " on leaves"};
  return TorchStorageId::View{tree.text(values[0]), *first, *count};
}

}  // namespace

Failure damaged_pickle(const std::string& what) { return Failure{"the pickle is damaged: " + what}; }

Result<TorchStorageId> read_storage_id(const PickleTree& tree, PickleId persistent, std::uint32_t size) {
  const std::vector<PickleId> values = items(tree, tree.persistent(persistent), size);
  if (values.empty())
    return damaged_pickle("a persistent id is no tuple of " + std::string(size == 5 ? "five" : "six") +
                          " values");
  if (!tree.is(values[0], PickleKind::kText) || tree.text(values[0]) != "storage")
    return damaged_pickle("a persistent id is none of a storage");
  TorchStorageId id;
  if (tree.is(values[1], PickleKind::kGlobal)) id.type = &torch_global(tree.global(values[1]));
  if (id.type == nullptr || id.type->role != TorchRole::kStorage)
    return damaged_pickle("a storage's type is none");
  if (!tree.is(values[2], PickleKind::kText)) return damaged_pickle("a storage's key is no string");
  id.key = tree.text(values[2]);
  const checked::Size count = natural(tree, values[4]);
  if (!count) return damaged_pickle("a storage's element count is none");
  id.count = *count;
  const std::string subject = "its storage " + quote_text(id.key);
  const checked::Size bytes = checked::multiply(count, id.type->bytes);
  if (!bytes)
    return Failure{subject + " is said to hold " + std::to_string(id.count) + " elements, which no file can"};
  id.bytes = *bytes;
  if (size > 5 && !tree.is(values[5], PickleKind::kNone)) {
    const Result<TorchStorageId::View> view = read_view(tree, values[5], id.count, subject);
    if (!view.ok()) return view.failure();
    id.view = view.value();
  }
  return id;
}

}  // namespace crumb
