#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "formats/torch_pickle/pickle.h"
#include "formats/torch_pickle/torch_archive.h"
#include "formats/torch_pickle/torch_globals.h"
#include "formats/torch_pickle/torch_pickle.h"
#include "formats/torch_pickle/torch_storages.h"
#include "formats/torch_pickle/torch_stream.h"
#include "formats/torch_pickle/torch_tensor.h"

namespace crumb {
namespace {

constexpr std::array<std::string_view, 7> kModelKeys = {"state_dict", "model_state_dict", "model", "module",
                                                        "net",        "weights",          "params"};
constexpr std::array<std::string_view, 8> kOptimizerKeys = {
    "optimizer", "optimizer_state_dict", "optimizer_state", "optimizer_states",
    "optim",     "optim_state_dict",     "optimizers",      "optimizers_state_dict"};
constexpr std::size_t kMaxDepth = 100;
constexpr std::size_t kMaxName = 4096;
/// What the listing may take; values may be shared, and a small pickle could describe any number of names.
constexpr std::uint64_t kListMemory = std::uint64_t{1} << 30;

template <class Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string count_text(std::uint64_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string in_name(const std::string& name) { return name.empty() ? "the saved object" : quote_text(name); }

/// Walks over the values that a pickle made.
class Flattener {
 public:
  Flattener(const PickleTree& tree, const TorchStorages& storages)
      : tree_(tree),
        tensors_(tree, storages),
        counts_(tree.node_count(), kUnknown),
        memory_left_(std::min(kListMemory, (std::uint64_t{4} << 20) + 256 * tree.byte_size())) {}

  Result<TensorListing> run(const std::string& key);

 private:
  static constexpr std::uint32_t kUnknown = UINT32_MAX, kEntered = UINT32_MAX - 1, kMost = UINT32_MAX - 2;

  /// An entry of a dictionary, list or tuple.
  struct Entry {
    PickleId key = 0;  ///< of a dictionary's entry
    std::uint64_t index = 0;
    PickleId value = 0;
    std::uint32_t next = PickleTree::kEnd;
  };
  struct Level {
    PickleId id = 0;
    std::uint32_t item = PickleTree::kEnd;
    std::uint64_t index = 0;
    std::size_t name_size = 0;  ///< of the container's own name
  };

  bool is_container(PickleId id) const {
    return tree_.is(id, PickleKind::kDict) || tree_.is(id, PickleKind::kList) ||
           tree_.is(id, PickleKind::kTuple);
  }
  Entry entry_at(PickleId container, std::uint32_t item, std::uint64_t index) const;
  /// A key as a part of a name; none where it is no string or integer.
  std::optional<std::string> key_name(PickleId container, const Entry& entry) const;

  void count_tensors(PickleId root);
  std::uint32_t count(PickleId id) const { return counts_[id] >= kEntered ? 0 : counts_[id]; }

  std::string describe(PickleId id) const;
  bool is_optimizer(PickleId id) const;
  std::optional<PickleId> wrapped_model(PickleId root, std::string& key) const;
  Result<PickleId> pick(const std::string& key, std::string& last) const;
  Failure absent(PickleId container, const std::string& above, std::string_view key) const;
  std::string entry_names(PickleId container) const;

  Status flatten(PickleId root, bool top);
  Status leaf(const Entry& entry, const std::string& name, bool top);
  Status add_tensor(PickleId id, const std::string& name);
  Status add_skipped(const std::string& name, std::string what);
  Status spend(const std::string& name, std::uint64_t bytes);
  Status check_names() const;

  const PickleTree& tree_;
  TorchTensors tensors_;
  std::vector<std::uint32_t> counts_;  ///< tensors below a value, saturating; kUnknown where never reached
  std::uint64_t memory_left_;          ///< that the listing may still take
  TensorListing listing_;
};

Flattener::Entry Flattener::entry_at(PickleId container, std::uint32_t item, std::uint64_t index) const {
  if (!tree_.is(container, PickleKind::kDict)) return {0, index, tree_.value(item), tree_.next(item)};
  const std::uint32_t value = tree_.next(item);
  return {tree_.value(item), index, tree_.value(value), tree_.next(value)};
}

std::optional<std::string> Flattener::key_name(PickleId container, const Entry& entry) const {
  if (!tree_.is(container, PickleKind::kDict)) return std::to_string(entry.index);
  if (tree_.is(entry.key, PickleKind::kText))
    return std::string(tree_.text(entry.key).substr(0, kMaxName + 1));
  if (tree_.is(entry.key, PickleKind::kInt)) return std::to_string(tree_.integer(entry.key));
  return std::nullopt;
}

/// Post-order, each value once; a value within itself counts nothing there. Keys hold no tensors.
void Flattener::count_tensors(PickleId root) {
  struct Visit {
    PickleId id;
    std::uint32_t item;
    bool is_key;
    std::uint32_t sum;
  };
  std::vector<Visit> stack;
  const auto enter = [&](PickleId id) {
    if (counts_[id] != kUnknown) return;
    if (tree_.has_items(id) && tree_.size(id) > 0) {
      counts_[id] = kEntered;
      stack.push_back({id, tree_.first(id), tree_.is(id, PickleKind::kDict), 0});
    } else {
      counts_[id] = tensors_.is_tensor(id) ? 1 : 0;
    }
  };
  enter(root);
  while (!stack.empty()) {
    Visit& visit = stack.back();
    if (visit.item == PickleTree::kEnd) {
      counts_[visit.id] = visit.sum;
      stack.pop_back();
      continue;
    }
    if (std::exchange(visit.is_key, false)) visit.item = tree_.next(visit.item);
    const PickleId value = tree_.value(visit.item);
    if (counts_[value] == kUnknown) {
      enter(value);
      if (counts_[value] == kEntered) continue;  // Comes back to this item, with the count.
    }
    visit.sum = visit.sum > kMost - count(value) ? kMost : visit.sum + count(value);
    visit.item = tree_.next(visit.item);
    visit.is_key = tree_.is(visit.id, PickleKind::kDict);
  }
}

std::string Flattener::describe(PickleId id) const {
  if (!tree_.has_items(id)) return tensors_.describe(id);
  const bool is_dict = tree_.is(id, PickleKind::kDict);
  const std::uint64_t entries = tree_.size(id) / (is_dict ? 2u : 1u);
  std::string text(pickle_kind_text(tree_.kind(id)));
  if (count(id) > 0) return text + " with " + count_text(count(id), "tensor", "tensors");
  if (entries == 0) return "an empty" + text.substr(1);
  return text + " without tensors (" + count_text(entries, "entry", "entries") + ")";
}

bool Flattener::is_optimizer(PickleId id) const {
  constexpr std::uint32_t kMaxItems = 64;  // Optimizers have two entries and a few of their own.
  if (!tree_.is(id, PickleKind::kDict) || tree_.size(id) > kMaxItems) return false;
  bool state = false, groups = false;
  for (std::uint32_t item = tree_.first(id); item != PickleTree::kEnd;) {
    const Entry entry = entry_at(id, item, 0);
    item = entry.next;
    if (!tree_.is(entry.key, PickleKind::kText)) continue;
    state = state || tree_.text(entry.key) == "state";
    groups = groups || tree_.text(entry.key) == "param_groups";
  }
  return state && groups;
}

std::optional<PickleId> Flattener::wrapped_model(PickleId root, std::string& key) const {
  if (!tree_.is(root, PickleKind::kDict)) return std::nullopt;
  std::uint64_t direct = 0;
  std::optional<PickleId> model;
  bool several = false;
  for (std::uint32_t item = tree_.first(root); item != PickleTree::kEnd;) {
    const Entry entry = entry_at(root, item, 0);
    item = entry.next;
    if (tensors_.is_tensor(entry.value)) ++direct;
    if (!tree_.is(entry.key, PickleKind::kText) || !contains(kModelKeys, tree_.text(entry.key))) continue;
    if (!tree_.is(entry.value, PickleKind::kDict) || count(entry.value) == 0) continue;
    several = several || model.has_value();
    model = entry.value;
    key = tree_.text(entry.key);
  }
  if (several || 2 * direct >= tree_.size(root) / 2) return std::nullopt;
  return model;
}

std::string Flattener::entry_names(PickleId container) const {
  constexpr std::uint64_t kShown = 12;
  const bool is_dict = tree_.is(container, PickleKind::kDict);
  const std::uint64_t entries = tree_.size(container) / (is_dict ? 2u : 1u);
  if (entries == 0) return "it is empty";
  std::string text = "it holds ";
  std::uint64_t index = 0;
  for (std::uint32_t item = tree_.first(container); item != PickleTree::kEnd && index < kShown; ++index) {
    const Entry entry = entry_at(container, item, index);
    item = entry.next;
    const std::optional<std::string> name = key_name(container, entry);
    text += (index == 0 ? "" : ", ") + (name ? quote_text(*name) : std::string("a key of another kind"));
  }
  if (entries > kShown) text += " and " + std::to_string(entries - kShown) + " more";
  return text;
}

Failure Flattener::absent(PickleId container, const std::string& above, std::string_view key) const {
  constexpr std::uint64_t kCompared = 1000;
  std::vector<std::string> names;
  std::uint64_t index = 0;
  for (std::uint32_t item = tree_.first(container); item != PickleTree::kEnd && index < kCompared; ++index) {
    const Entry entry = entry_at(container, item, index);
    item = entry.next;
    if (std::optional<std::string> name = key_name(container, entry); name && name->size() <= 256)
      names.push_back(std::move(*name));
  }
  std::string text = in_name(above) + " has no entry " + quote_text(key);
  if (!names.empty()) text += ", did you mean " + quote_text(nearest_name(key, names)) + "?";
  return Failure{text + " (" + entry_names(container) + ")"};
}

/// Descends by the key; an entry's own name may hold dots: the longest that fits is taken.
Result<PickleId> Flattener::pick(const std::string& key, std::string& last) const {
  PickleId at = tree_.root();
  std::string_view rest = key;
  std::string above;
  for (std::size_t depth = 0; depth <= kMaxDepth; ++depth) {
    if (!is_container(at))
      return Failure{in_name(above) + " is " + describe(at) + " and has no entry " + quote_text(rest)};
    std::optional<PickleId> best;
    std::size_t best_size = 0;
    std::uint64_t index = 0;
    for (std::uint32_t item = tree_.first(at); item != PickleTree::kEnd; ++index) {
      const Entry entry = entry_at(at, item, index);
      item = entry.next;
      const std::optional<std::string> name = key_name(at, entry);
      if (!name || !rest.starts_with(*name)) continue;
      if (name->size() != rest.size() && rest[name->size()] != '.') continue;
      if (best && name->size() == best_size) return Failure{"the key " + quote_text(*name) + " occurs twice"};
      if (best && name->size() < best_size) continue;
      best = entry.value;
      best_size = name->size();
    }
    if (!best) return absent(at, above, rest);
    last = rest.substr(0, best_size);
    above += (above.empty() ? "" : ".") + last;
    at = *best;
    if (best_size == rest.size()) return at;
    rest.remove_prefix(best_size + 1);
  }
  return Failure{"the key goes more than " + std::to_string(kMaxDepth) + " levels deep"};
}

Status Flattener::add_skipped(const std::string& name, std::string what) {
  const Status spent = spend(name, sizeof(SkippedEntry) + what.size());
  if (!spent.ok()) return spent;
  listing_.skipped.push_back({name, std::move(what)});
  return {};
}

Status Flattener::spend(const std::string& name, std::uint64_t bytes) {
  bytes += name.size();
  if (bytes > memory_left_)
    return Failure{"at " + quote_text(name) +
                   ": the saved object repeats its values so often that their names do not fit in memory"};
  memory_left_ -= bytes;
  return {};
}

Status Flattener::add_tensor(PickleId id, const std::string& name) {
  Result<TorchTensor> found = tensors_.tensor(id);
  if (!found.ok())
    return Failure{(name.empty() ? std::string("the saved tensor") : "tensor " + quote_text(name)) + ": " +
                   found.failure().message};
  if (!found.value().tensor) return add_skipped(name, std::move(found.value().skipped));
  StoredTensor& tensor = *found.value().tensor;
  const Status spent = spend(name, sizeof tensor + 16 * tensor.shape.size());
  if (!spent.ok()) return spent;
  listing_.tensors.push_back(std::move(tensor));
  listing_.tensors.back().name = name;
  return {};
}

/// What is not descended into. `top`: an entry of the outermost dictionary.
Status Flattener::leaf(const Entry& entry, const std::string& name, bool top) {
  const PickleId id = entry.value;
  if (tensors_.is_tensor(id)) return add_tensor(id, name);
  const bool named = top && tree_.is(entry.key, PickleKind::kText) &&
                     contains(kOptimizerKeys, tree_.text(entry.key)) && is_container(id);
  if (named || is_optimizer(id))
    return add_skipped(name, "optimizer state (" + count_text(count(id), "tensor", "tensors") + ")");
  return add_skipped(name, describe(id));
}

Status Flattener::flatten(PickleId root, bool top) {
  std::string name;
  std::vector<Level> levels = {{root, tree_.first(root), 0, name.size()}};
  while (!levels.empty()) {
    Level& level = levels.back();
    name.resize(level.name_size);
    if (level.item == PickleTree::kEnd) {
      levels.pop_back();
      continue;
    }
    const Entry entry = entry_at(level.id, level.item, level.index++);
    level.item = entry.next;
    const bool outermost = top && levels.size() == 1;
    std::optional<std::string> part = key_name(level.id, entry);
    if (!part && count(entry.value) > 0)
      return Failure{in_name(name) + " has a key that is " + tensors_.describe(entry.key) +
                     " and holds tensors, expected a string or an integer"};
    if (!part) part = "(" + tensors_.describe(entry.key) + ")";
    // What a quantized layer packs: its weight is what the entry is named after, its bias lies beside it.
    const bool packed = tree_.is(level.id, PickleKind::kTuple) && name.ends_with("_packed_params");
    if (packed && entry.index < 2) part = entry.index == 0 ? "" : "bias";
    if (levels.size() > 1 && !part->empty()) name += '.';
    name += *part;
    if (name.size() > kMaxName)
      return Failure{"the name " + quote_text(name) + " has more than " + byte_text(kMaxName)};
    if (!is_utf8(name)) return Failure{"the name " + quote_text(name) + " is no UTF-8"};
    const PickleId id = entry.value;
    const bool optimizer = is_optimizer(id) || (outermost && tree_.is(entry.key, PickleKind::kText) &&
                                                contains(kOptimizerKeys, tree_.text(entry.key)));
    if (!is_container(id) || count(id) == 0 || optimizer) {
      const Status status = leaf(entry, name, outermost);
      if (!status.ok()) return status;
      continue;
    }
    for (const Level& above : levels)
      if (above.id == id) return Failure{quote_text(name) + " contains itself"};
    if (levels.size() == kMaxDepth)
      return Failure{quote_text(name) + " is nested more than " + std::to_string(kMaxDepth) + " deep"};
    levels.push_back({id, tree_.first(id), 0, name.size()});
  }
  return {};
}

Status Flattener::check_names() const {
  std::vector<std::size_t> order(listing_.tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return listing_.tensors[a].name < listing_.tensors[b].name;
  });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (listing_.tensors[order[i]].name == listing_.tensors[order[i - 1]].name)
      return Failure{"two tensors are named " + quote_text(listing_.tensors[order[i]].name) +
                     " once dictionaries are flattened with dots"};
  return {};
}

Result<TensorListing> Flattener::run(const std::string& key) {
  const PickleId root = tree_.root();
  count_tensors(root);
  PickleId model = root;
  std::string name;
  if (!key.empty()) {
    const Result<PickleId> picked = pick(key, name);
    if (!picked.ok()) return picked.failure();
    model = picked.value();
  } else if (is_optimizer(root)) {
    return Failure{"the saved object is optimizer state (" + count_text(count(root), "tensor", "tensors") +
                   "), expected a state dict of a model"};
  } else if (const std::optional<PickleId> wrapped = wrapped_model(root, name)) {
    model = *wrapped;
    for (std::uint32_t item = tree_.first(root); item != PickleTree::kEnd;) {
      const Entry entry = entry_at(root, item, 0);
      item = entry.next;
      if (tree_.is(entry.key, PickleKind::kText) && tree_.text(entry.key) == name) continue;
      const std::string other = key_name(root, entry).value_or("(" + tensors_.describe(entry.key) + ")");
      if (!is_utf8(other)) return Failure{"the name " + quote_text(other) + " is no UTF-8"};
      // A tensor beside the model is listed, not read.
      const Status status = tensors_.is_tensor(entry.value) ? add_skipped(other, describe(entry.value))
                                                            : leaf(entry, other, true);
      if (!status.ok()) return status.failure();
    }
  }
  const std::string where = key.empty() ? "the saved object" : quote_text(key);
  if (tensors_.is_tensor(model)) {
    const Status status = add_tensor(model, name);
    if (!status.ok()) return status.failure();
  } else if (!is_container(model) || count(model) == 0) {
    return Failure{where + " holds no tensors: it is " + describe(model) +
                   (is_container(model) ? " (" + entry_names(model) + ")" : "")};
  } else {
    const Status status = flatten(model, model == root);
    if (!status.ok()) return status.failure();
  }
  if (listing_.tensors.empty() && !listing_.skipped.empty())
    return Failure{where + " holds no tensor that can be read: " + in_name(listing_.skipped.front().name) +
                   " is " + listing_.skipped.front().what};
  const Status names = check_names();
  if (!names.ok()) return names.failure();
  return std::move(listing_);
}

}  // namespace

Result<TensorListing> list_torch_checkpoint(std::span<const std::byte> file, const TorchOptions& options) {
  if (looks_like_torch_stream(file)) {
    const Result<TorchStream> stream = TorchStream::open(file);
    if (!stream.ok()) return stream.failure();
    return Flattener(stream.value().tree(), stream.value()).run(options.key);
  }
  const Result<TorchArchive> archive = TorchArchive::open(file);
  if (!archive.ok()) return archive.failure();
  const Result<PickleTree> tree = read_pickle(archive.value().pickle(), find_torch_global);
  if (!tree.ok()) return tree.failure();
  return Flattener(tree.value(), archive.value()).run(options.key);
}

}  // namespace crumb
