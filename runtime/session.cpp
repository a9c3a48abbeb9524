#include "runtime/session.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "base/files/text.h"
#include "graph/attention_caches.h"
#include "runtime/meter.h"
#include "runtime/session_file.h"

namespace crumb::runtime {
namespace {

using graph::Graph;
using graph::Node;
using In = graph::AttentionInput;
using Out = graph::AttentionOutput;

std::optional<std::size_t> place_of(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

bool reads_sizes_alone(const Node& node) { return node.is("Shape") || node.is("Size"); }

/// What follows the first prefix that the name begins with.
std::optional<std::string> behind(const std::string& name, std::initializer_list<std::string_view> prefixes) {
  for (const std::string_view prefix : prefixes) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return std::nullopt;
}

bool are_alike(const Graph& graph, const std::string& a, const std::string& b) {
  const graph::Value *x = graph.find(a), *y = graph.find(b);
  return x && y && x->type == y->type && x->shape && y->shape && x->shape->size() == y->shape->size() &&
         x->shape->size() > 2;
}

HeadRows rows_of(const Array& x) {
  const auto size = [&](std::int64_t axis) { return static_cast<std::size_t>(x.dim(axis)); };
  return {x.values<float>().data(), size(1) * size(2) * size(3), size(2) * size(3), size(3)};
}

/// Counts what a session holds with the meter while the scope lives.
class Counted {
 public:
  explicit Counted(const std::vector<std::unique_ptr<KeyCache>>& caches, std::uint64_t values)
      : caches_(caches), meter_(MeterScope::current()), values_(values) {
    try {
      for (const auto& cache : caches_) cache->count(meter_);
      if (meter_) meter_->take(values_);
    } catch (...) {
      for (const auto& cache : caches_) cache->uncount();
      throw;
    }
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() {
    for (const auto& cache : caches_) cache->uncount();
    if (meter_) meter_->give(values_);
  }

 private:
  const std::vector<std::unique_ptr<KeyCache>>& caches_;
  std::shared_ptr<Meter> meter_;
  std::uint64_t values_;
};

}  // namespace

std::vector<Tie> find_ties(const Graph& graph) {
  std::vector<Tie> ties;
  std::set<std::string> taken;
  const auto add = [&](const std::string& past, const std::string& present) {
    if (!place_of(graph.inputs, past) || !place_of(graph.outputs, present)) return;
    if (taken.contains(past) || taken.contains(present)) return;
    taken.insert({past, present});
    ties.push_back({past, present});
  };
  for (const Node& node : graph.nodes) {
    if (!node.is("Attention") || !node.has_input(In::kPastValue) || !node.has_output(Out::kPresentValue))
      continue;
    add(node.inputs[In::kPastKey], node.outputs[Out::kPresentKey]);
    add(node.inputs[In::kPastValue], node.outputs[Out::kPresentValue]);
  }
  for (const std::string& input : graph.inputs) {
    const auto name = behind(input, {"past_key_values", "past"});
    if (!name) continue;
    for (const std::string& output : graph.outputs) {
      if (behind(output, {"present_key_values", "present"}) == name && are_alike(graph, input, output))
        add(input, output);
    }
  }
  return ties;
}

Session::Session(const Model& model, std::vector<Tie> ties, std::int64_t most_places)
    : model_(&model), ties_(std::move(ties)), most_places_(most_places) {
  if (most_places < 0) throw Error("a session cannot have " + std::to_string(most_places) + " places");
  for (const Tie& tie : ties_) {
    HeldValue held = held_by(tie);
    if (holds_input(held.input)) throw Error("input " + quote_text(tie.past) + " is tied twice");
    if (holds_output(held.output)) throw Error("output " + quote_text(tie.present) + " is tied twice");
    held_.push_back(std::move(held));
  }
  find_caches();
}

Session::HeldValue Session::held_by(const Tie& tie) const {
  const Graph& graph = model_->graph();
  const auto input = place_of(graph.inputs, tie.past), output = place_of(graph.outputs, tie.present);
  if (!input) throw Error("there is no input " + quote_text(tie.past) + " to tie");
  if (!output) throw Error("there is no output " + quote_text(tie.present) + " to tie");
  const graph::Value* value = graph.find(tie.past);
  const auto rank = value && value->shape ? static_cast<std::int64_t>(value->shape->size()) : 0;
  if (tie.axis < 0 || tie.axis >= rank)
    throw Error("input " + quote_text(tie.past) + ": its shape does not say that it has an axis " +
                std::to_string(tie.axis));
  HeldValue held{.input = *input, .output = *output, .axis = static_cast<std::size_t>(tie.axis)};
  if (value->type != ElementType::kUnknown) held.type = value->type;
  return held;
}

/// Finds the Attention nodes whose past and present are tied and read by nobody else than attention over the
/// same positions, except for their sizes.
void Session::find_caches() {
  const Graph& graph = model_->graph();
  const graph::Links links(graph);
  const auto tied = [&](const std::string& past, const std::string& present) -> HeldValue* {
    for (std::size_t i = 0; i < ties_.size(); ++i) {
      if (ties_[i].past == past && ties_[i].present == present && ties_[i].axis == 2) return &held_[i];
    }
    return nullptr;
  };
  const auto is_private = [&](const std::string& value, std::size_t uses) {
    std::size_t others = 0;
    for (const std::size_t node : links.consumers(value))
      others += reads_sizes_alone(graph.nodes[node]) ? 0 : 1;
    return others == uses;
  };
  const auto given_once = [&](const std::string& value) {
    return std::ranges::count(graph.outputs, value) == 1;
  };
  for (const graph::AttentionCache& found : graph::attention_caches(graph, links)) {
    const Node& node = graph.nodes[found.keeper];
    const std::string &past_key = node.inputs[In::kPastKey], &past_value = node.inputs[In::kPastValue];
    const std::string &key = node.outputs[Out::kPresentKey], &value = node.outputs[Out::kPresentValue];
    const std::size_t takers = 1 + found.beside.size(), behind = found.behind.size();
    HeldValue *const keys = tied(past_key, key), *const values = tied(past_value, value);
    const bool is_alone = keys && values && is_private(past_key, takers) && is_private(past_value, takers) &&
                          is_private(key, behind) && is_private(value, behind) && given_once(key) &&
                          given_once(value) && !links.is_output(past_key) && !links.is_output(past_value) &&
                          carrier_of(keys->type) == Carrier::kFloat &&
                          carrier_of(values->type) == Carrier::kFloat;
    if (!is_alone) continue;
    keys->cache_index = values->cache_index = caches_.size();
    caches_.push_back(std::make_unique<KeyCache>(most_places_, model_->cache_codes(found.keeper)));
    keepers_.push_back(found.keeper);
    keys->cache = values->cache = caches_.back().get();
    values->is_value = true;
    by_node_[found.keeper] = {.cache = keys->cache};
    for (const auto* const readers : {&found.beside, &found.behind})
      for (const std::size_t reader : *readers) by_node_[reader] = {.cache = keys->cache};
    // The first to run that has them: all that are `beside` take them, the keeper does, too.
    const std::size_t first = found.beside.empty() ? found.keeper : std::min(found.keeper, found.beside[0]);
    by_node_[first].appends = true;
  }
}

bool Session::holds_input(std::size_t index) const {
  return std::ranges::any_of(held_, [&](const HeldValue& held) { return held.input == index; });
}

bool Session::holds_output(std::size_t index) const {
  return std::ranges::any_of(held_, [&](const HeldValue& held) { return held.output == index; });
}

Ints Session::first_shape(const HeldValue& held, const std::vector<Array>& inputs) const {
  const Graph& graph = model_->graph();
  const std::string& name = graph.inputs[held.input];
  const graph::Shape& stated = *graph.find(name)->shape;
  const auto size_called = [&](const std::string& symbol) -> std::optional<std::int64_t> {
    for (std::size_t i = 0; i < inputs.size() && !symbol.empty(); ++i) {
      const graph::Value* value = graph.find(graph.inputs[i]);
      if (!inputs[i].defined() || !value || !value->shape || value->shape->size() != inputs[i].shape().size())
        continue;
      for (std::size_t k = 0; k < value->shape->size(); ++k) {
        if ((*value->shape)[k].symbol == symbol) return inputs[i].shape()[k];
      }
    }
    return std::nullopt;
  };
  Ints shape;
  for (std::size_t axis = 0; axis < stated.size(); ++axis) {
    const graph::Dim& dim = stated[axis];
    std::optional<std::int64_t> size = dim.known() ? std::optional(dim.size) : size_called(dim.symbol);
    if (axis == held.axis) size = 0;
    for (std::size_t i = 0; !size && axis == 0 && i < inputs.size(); ++i) {
      if (inputs[i].rank() > 0) size = inputs[i].dim(0);
    }
    if (!size)
      throw Error("input " + quote_text(name) + ": nothing says the size of axis " + std::to_string(axis) +
                  " of " + graph::text_of(stated));
    shape.push_back(*size);
  }
  return shape;
}

/// Precondition: the cache holds positions.
Ints Session::shape_of(const HeldValue& held) const {
  const KeyCache::Sizes& sizes = held.cache->sizes();
  const auto size = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  return {size(sizes.batch), size(sizes.heads), length_,
          size(held.is_value ? sizes.value_depth : sizes.depth)};
}

std::vector<Array> Session::complete(std::vector<Array> inputs) const {
  const Graph& graph = model_->graph();
  const std::size_t wanted = graph.inputs.size() - held_.size();
  if (inputs.size() != wanted) {
    throw Error("the session takes " + std::to_string(wanted) + " inputs beside those that it holds, and " +
                std::to_string(inputs.size()) + " are given");
  }
  std::vector<Array> all(graph.inputs.size());
  auto next = inputs.begin();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!holds_input(i)) all[i] = std::move(*next++);
  }
  const std::vector<Array> given = all;
  for (const HeldValue& held : held_) {
    Array& past = all[held.input];
    if (length_ > 0 && !held.cache) {
      past = held.value;
      continue;
    }
    const Ints shape = length_ == 0 ? first_shape(held, given) : shape_of(held);
    past = held.cache ? Array::elsewhere(held.type, shape) : Array(held.type, shape);
  }
  check_inputs(graph, all);
  return all;
}

std::int64_t Session::places_made(const HeldValue& held, const std::vector<Array>& outputs) const {
  const Array& made = outputs[held.output];
  if (static_cast<std::size_t>(made.rank()) <= held.axis || made.type() != held.type)
    throw Error("output " + quote_text(model_->graph().outputs[held.output]) + " is " + text_of(made) +
                ", which is none for the next run to take");
  return made.shape()[held.axis];
}

std::vector<Array> Session::run_complete(std::vector<Array> inputs, RunOptions options) {
  std::uint64_t values = 0;
  for (const HeldValue& held : held_) values += held.value.bytes();
  const Counted counted(caches_, values);
  for (const auto& cache : caches_) cache->forget();
  options.caches = &by_node_;
  std::vector<Array> outputs = model_->run(std::move(inputs), options);
  std::int64_t length = length_;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    const std::int64_t places = places_made(held_[i], outputs);
    if (i > 0 && places != length)
      throw Error("output " + quote_text(ties_[i].present) + " has " + std::to_string(places) +
                  " places, and " + quote_text(ties_[0].present) + " has " + std::to_string(length));
    if (most_places_ > 0 && places > most_places_)
      throw Error("output " + quote_text(ties_[i].present) + " has " + std::to_string(places) +
                  " places, which is over the most of " + std::to_string(most_places_));
    length = places;
  }
  for (HeldValue& held : held_) {
    if (!held.cache) held.value = std::move(outputs[held.output]);
    outputs[held.output] = {};
  }
  for (const auto& cache : caches_) cache->commit();
  length_ = length;
  return outputs;
}

std::uint64_t Session::bytes() const {
  std::uint64_t all = 0;
  for (const HeldValue& held : held_) all += held.value.bytes();
  for (const auto& cache : caches_) all += cache->bytes();
  return all;
}

void Session::truncate(std::int64_t length) {
  if (length < 0 || length > length_)
    throw Error("the session has " + std::to_string(length_) + " places, so it cannot keep " +
                std::to_string(length));
  if (length == length_) return;
  std::vector<Array> cut(held_.size());
  for (std::size_t i = 0; i < held_.size() && length > 0; ++i) {
    const HeldValue& held = held_[i];
    if (held.cache) continue;
    Ints shape = held.value.shape();
    const std::size_t element = bytes_of(held.value.carrier());
    std::size_t outer = 1, inner = element;  // positions of the axes before; bytes of one position
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (axis != held.axis) (axis < held.axis ? outer : inner) *= static_cast<std::size_t>(shape[axis]);
    }
    const std::size_t before = static_cast<std::size_t>(length_) * inner,
                      after = static_cast<std::size_t>(length) * inner;
    shape[held.axis] = length;
    cut[i] = Array(held.value.type(), shape);
    for (std::size_t k = 0; k < outer && after > 0; ++k)
      std::memcpy(cut[i].writable_data() + k * after, held.value.data() + k * before, after);
  }
  for (std::size_t i = 0; i < held_.size(); ++i) held_[i].value = std::move(cut[i]);
  for (const auto& cache : caches_) cache->truncate(static_cast<std::size_t>(length));
  length_ = length;
}

Session::Tail Session::tail(std::int64_t length) const {
  if (length < 0 || length > length_)
    throw Error("the session has " + std::to_string(length_) + " places, so none lie behind " +
                std::to_string(length));
  Tail made;
  made.from_ = length;
  made.length_ = length_;
  if (length == length_) return made;
  for (const auto& cache : caches_) made.caches_.push_back(cache->tail(static_cast<std::size_t>(length)));
  for (const HeldValue& held : held_) made.values_.push_back(held.value);
  return made;
}

void Session::put_back(Tail tail) {
  truncate(tail.from_);
  if (tail.length_ == tail.from_) return;
  try {
    for (std::size_t i = 0; i < caches_.size(); ++i) caches_[i]->put_back(tail.caches_[i]);
  } catch (...) {
    for (const auto& cache : caches_) cache->truncate(static_cast<std::size_t>(tail.from_));
    throw;
  }
  for (std::size_t i = 0; i < held_.size(); ++i) held_[i].value = std::move(tail.values_[i]);
  length_ = tail.length_;
}

Array Session::array_of(const HeldValue& held) const {
  if (!held.cache) return held.value;
  return held.is_value ? held.cache->values_array(held.type) : held.cache->keys_array(held.type);
}

std::vector<std::byte> Session::save() const {
  SavedSession saved{.places = static_cast<std::uint64_t>(length_), .values = {}};
  std::vector<graph::Tensor> tensors;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    SavedValue& value = saved.values.emplace_back();
    value.name = ties_[i].past;
    value.type = held_[i].type;
    if (length_ == 0) continue;
    tensors.push_back(array_of(held_[i]).tensor());
    value.shape = tensors.back().shape();
    value.elements = tensors.back().bytes();
  }
  return session_bytes(saved);
}

/// `sizes`: the values of named sizes, which must agree between all held values.
void Session::check_restored(const HeldValue& held, const Array& array,
                             std::map<std::string, std::int64_t>& sizes) const {
  const std::string& name = model_->graph().inputs[held.input];
  const graph::Shape& stated = *model_->graph().find(name)->shape;
  bool fits =
      stated.size() == array.shape().size() && (!held.cache || (stated.size() == 4 && array.size() > 0));
  for (std::size_t axis = 0; fits && axis < stated.size(); ++axis) {
    const graph::Dim& dim = stated[axis];
    const std::int64_t size = array.shape()[axis];
    if (axis == held.axis) {
      fits = size == sizes.at("");
    } else if (dim.known()) {
      fits = size == dim.size;
    } else if (!dim.symbol.empty()) {
      fits = sizes.try_emplace(dim.symbol, size).first->second == size;
    }
  }
  if (!fits)
    throw Error("a saved session: its " + quote_text(name) + " is " + text_of(array) + ", expected " +
                graph::text_of(stated) + " with " + std::to_string(sizes.at("")) + " places");
}

void Session::restore(std::span<const std::byte> bytes) {
  const SavedSession saved = parse_session(bytes).take();
  const auto length = static_cast<std::int64_t>(saved.places);
  if (length < 0 || (most_places_ > 0 && length > most_places_))
    throw Error("a saved session: its " + std::to_string(saved.places) + " places are too many");
  if (saved.values.size() != held_.size())
    throw Error("a saved session: it has " + std::to_string(saved.values.size()) + " values, expected " +
                std::to_string(held_.size()));
  std::map<std::string, std::int64_t> sizes{{"", length}};
  std::vector<Array> arrays(held_.size());
  for (std::size_t i = 0; i < held_.size(); ++i) {
    const SavedValue& value = saved.values[i];
    if (value.name != ties_[i].past || value.type != held_[i].type || value.shape.empty() != (length == 0))
      throw Error("a saved session: it has " + quote_text(value.name) + " of " +
                  std::string(graph::name_of(value.type)) + ", expected " + quote_text(ties_[i].past) +
                  " of " + std::string(graph::name_of(held_[i].type)));
    if (length == 0) continue;
    arrays[i] = Array::of(value.type, value.shape, value.elements);
    check_restored(held_[i], arrays[i], sizes);
  }
  std::vector<std::unique_ptr<KeyCache>> caches;
  for (std::size_t c = 0; c < caches_.size(); ++c) {
    KeyCache& cache =
        *caches.emplace_back(std::make_unique<KeyCache>(most_places_, model_->cache_codes(keepers_[c])));
    if (length == 0) continue;
    const Array *keys = nullptr, *values = nullptr;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      if (held_[i].cache && held_[i].cache_index == c) (held_[i].is_value ? values : keys) = &arrays[i];
    }
    if (keys->dim(0) != values->dim(0) || keys->dim(1) != values->dim(1))
      throw Error("a saved session: keys " + text_of(*keys) + " and values " + text_of(*values) +
                  " do not go together");
    const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    cache.append({size(keys->dim(0)), size(keys->dim(1)), size(keys->dim(3)), size(values->dim(3))},
                 size(length), rows_of(*keys), rows_of(*values));
    cache.commit();
  }
  std::map<const KeyCache*, KeyCache*> in_place_of;
  for (std::size_t c = 0; c < caches_.size(); ++c) in_place_of[caches_[c].get()] = caches[c].get();
  for (auto& [node, use] : by_node_) use.cache = in_place_of.at(use.cache);
  caches_ = std::move(caches);
  for (std::size_t i = 0; i < held_.size(); ++i) {
    HeldValue& held = held_[i];
    if (held.cache) held.cache = caches_[held.cache_index].get();
    if (!held.cache) held.value = std::move(arrays[i]);
  }
  length_ = length;
}

}  // namespace crumb::runtime
