// Implements crumb.h on the runtime's own classes, except for what takes texts (language.cpp).
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/checked_size.h"
#include "base/files/text.h"
#include "formats/crumb_file/contents_checksum.h"
#include "graph/packed/crumb_graph.h"
#include "runtime/c/status.h"
#include "runtime/meter.h"
#include "runtime/model.h"
#include "runtime/session.h"

namespace runtime = crumb::runtime;
namespace graph = crumb::graph;

using runtime::c::failed;
using runtime::c::guarded;
using runtime::c::last_error;
using runtime::c::limits_of;

namespace {

/// A value's description with the memory that it points to.
struct Described {
  std::string name;
  graph::ElementType type = graph::ElementType::kUnknown;
  bool has_shape = false;
  std::vector<std::int64_t> shape;
  std::vector<std::string> texts;
  std::vector<const char*> symbols;
};

std::vector<Described> described(const graph::Graph& network, const std::vector<std::string>& names) {
  std::vector<Described> all;
  for (const std::string& name : names) {
    Described& made = all.emplace_back();
    made.name = name;
    const graph::Value* value = network.find(name);
    if (!value) continue;
    made.type = value->type;
    made.has_shape = value->shape.has_value();
    for (const graph::Dim& dim : value->shape.value_or(graph::Shape())) {
      made.shape.push_back(dim.known() ? dim.size : -1);
      made.texts.push_back(dim.symbol);
    }
    for (const std::string& text : made.texts) made.symbols.push_back(text.c_str());
  }
  return all;
}

/// An output as crumb_tensor describes it.
struct Result {
  runtime::Array array;
  graph::Tensor stored;  ///< of types whose stored bytes are not those of the carrier
};

struct Opened {
  Opened(graph::Graph network, std::uint32_t checksum) : model(std::move(network)), contents(checksum) {
    inputs = described(model.graph(), model.graph().inputs);
    outputs = described(model.graph(), model.graph().outputs);
  }

  runtime::Model model;
  std::uint32_t contents;  ///< contents_checksum() of its file
  std::vector<Described> inputs, outputs;
};

/// The head of a saved session: which network made it, by which promise.
struct SavedHead {
  std::array<char, 8> magic = {'c', 'r', 'u', 'm', 'b', '-', 'c', 's'};
  std::uint32_t version = 1, contents = 0, promise = 0;
};
static_assert(sizeof(SavedHead) == 20);

crumb_status describe(const std::vector<Described>& values, size_t index, crumb_value* value) noexcept {
  if (!value || index >= values.size()) {
    return guarded(CRUMB_ERROR_ARGUMENT, [&] {
      throw crumb::Error("value " + std::to_string(index) + " of " + std::to_string(values.size()) +
                         (value ? "" : ", and nowhere to describe it"));
    });
  }
  const Described& from = values[index];
  *value = {from.name.c_str(), static_cast<crumb_type>(graph::onnx_number(from.type)),
            from.has_shape ? static_cast<int64_t>(from.shape.size()) : -1, from.shape.data(),
            from.symbols.data()};
  return CRUMB_OK;
}

/// Opening a file computes what constants decide, so it has limits, too.
crumb_status open_file(crumb::Result<crumb::CrumbFile> file, crumb_model** model);

}  // namespace

struct crumb_model {
  std::shared_ptr<const Opened> opened;
};

struct crumb_session {
  std::shared_ptr<const Opened> opened;
  crumb_options options;
  std::atomic<bool> cancelled{false};
  runtime::Arena arena;
  std::optional<runtime::Session> cache;
  uint64_t most_places = 0;
  std::vector<std::byte> saved;
  std::vector<Result> results;
  uint64_t peak = 0, work = 0;
  runtime::c::NotFiniteValues not_finite;
};

namespace {

crumb_status open_file(crumb::Result<crumb::CrumbFile> file, crumb_model** model) {
  graph::Graph network;
  std::uint32_t contents = 0;
  const crumb_status read = guarded(CRUMB_ERROR_FILE, [&] {
    const auto opened = std::make_shared<const crumb::CrumbFile>(file.take());
    const std::string path = crumb::quote_text(opened->path().string());
    contents = crumb::contents_checksum(opened->header());
    network = (opened->path().empty() ? graph::graph_of(*opened) : graph::graph_on(opened)).take(path);
  });
  if (read != CRUMB_OK) return read;
  return guarded(CRUMB_ERROR_UNSUPPORTED, [&] {
    const runtime::MeterScope scope(std::make_shared<runtime::Meter>(runtime::Limits()));
    auto opened = std::make_shared<const Opened>(std::move(network), contents);
    *model = new crumb_model{std::move(opened)};
  });
}

SavedHead head_of(const crumb_session& session) {
  SavedHead head;
  head.contents = session.opened->contents;
  head.promise = session.options.promise == CRUMB_FAST ? 1 : 0;
  return head;
}

/// Throws Error where the bytes do not begin with the expected head.
void check_head(std::span<const std::byte> saved, const SavedHead& expected) {
  SavedHead found;
  if (saved.size() < sizeof found) throw crumb::Error("a saved session: these bytes are none");
  std::memcpy(&found, saved.data(), sizeof found);
  if (found.magic != expected.magic || found.version != expected.version)
    throw crumb::Error(
        "a saved session: these bytes are none, or none of this version, which name the network");
  if (found.contents != expected.contents)
    throw crumb::Error("a saved session: it was made by another network: its weights' checksum is " +
                       std::to_string(found.contents) + ", expected " + std::to_string(expected.contents));
  if (found.promise != expected.promise)
    throw crumb::Error("a saved session: it was made by the promise " +
                       std::string(found.promise == 0 ? "CRUMB_EXACT" : "CRUMB_FAST") +
                       ", which is not this session's");
}

graph::ElementType type_of(crumb_type type) {
  const auto known = graph::element_type_of(static_cast<std::int64_t>(type));
  if (!known)
    throw crumb::Error("there is no element type of number " + std::to_string(static_cast<int>(type)));
  return *known;
}

/// Inputs that a run takes, by name.
std::vector<std::string> names_given(const crumb_session& session) {
  std::vector<std::string> names;
  const auto& inputs = session.opened->inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!session.cache || !session.cache->holds_input(i)) names.push_back(inputs[i].name);
  }
  return names;
}

/// More axes than any network has: a larger number is no rank, and no shape follows it.
constexpr size_t kMostAxes = 64;

runtime::Array array_of(const crumb_tensor& tensor, const std::string& name) {
  if (tensor.rank > kMostAxes)
    throw crumb::Error("input " + crumb::quote_text(name) + ": a rank of " + std::to_string(tensor.rank) +
                       ", expected at most " + std::to_string(kMostAxes));
  if ((tensor.rank > 0 && !tensor.shape) || (tensor.bytes > 0 && !tensor.data))
    throw crumb::Error("input " + crumb::quote_text(name) + ": a null pointer");
  try {
    const runtime::Ints shape(tensor.shape, tensor.shape + tensor.rank);
    return runtime::Array::of(type_of(tensor.type), shape,
                              {static_cast<const std::byte*>(tensor.data), tensor.bytes});
  } catch (const runtime::Stopped&) {
    throw;
  } catch (const crumb::Error& error) {
    throw crumb::Error("input " + crumb::quote_text(name) + ": " + error.what());
  }
}

/// Calls work(cache) within the session's limits.
template <class Work>
crumb_status with_cache(crumb_session* session, crumb_status status, const Work& work) noexcept {
  if (!session) return failed(CRUMB_ERROR_ARGUMENT, "a null pointer for a session");
  if (!session->cache)
    return failed(CRUMB_ERROR_ARGUMENT, "the session has no cache: crumb_cache_open() makes one");
  return guarded(status, [&] {
    const runtime::MeterScope scope(std::make_shared<runtime::Meter>(limits_of(session->options)));
    work(*session->cache);
  });
}

}  // namespace

extern "C" {

const char* crumb_version(void) { return CRUMB_VERSION; }

const char* crumb_error(void) { return last_error().c_str(); }

crumb_status crumb_open(const char* path, crumb_model** model) {
  if (!path || !model) return failed(CRUMB_ERROR_ARGUMENT, "crumb_open: a null pointer");
  try {
    return open_file(crumb::CrumbFile::open(path), model);
  } catch (const std::exception& error) {
    return failed(CRUMB_ERROR_FILE, error.what());
  }
}

crumb_status crumb_open_memory(const void* bytes, size_t size, crumb_model** model) {
  if (!bytes || !model) return failed(CRUMB_ERROR_ARGUMENT, "crumb_open_memory: a null pointer");
  try {
    return open_file(crumb::CrumbFile::in_memory({static_cast<const std::byte*>(bytes), size}), model);
  } catch (const std::exception& error) {
    return failed(CRUMB_ERROR_FILE, error.what());
  }
}

void crumb_close(crumb_model* model) { delete model; }

size_t crumb_input_count(const crumb_model* model) { return model ? model->opened->inputs.size() : 0; }

size_t crumb_output_count(const crumb_model* model) { return model ? model->opened->outputs.size() : 0; }

crumb_status crumb_input(const crumb_model* model, size_t index, crumb_value* value) {
  if (!model) return failed(CRUMB_ERROR_ARGUMENT, "crumb_input: a null pointer");
  return describe(model->opened->inputs, index, value);
}

crumb_status crumb_output(const crumb_model* model, size_t index, crumb_value* value) {
  if (!model) return failed(CRUMB_ERROR_ARGUMENT, "crumb_output: a null pointer");
  return describe(model->opened->outputs, index, value);
}

crumb_status crumb_session_open(const crumb_model* model, const crumb_options* options,
                                crumb_session** session) {
  if (!model || !session) return failed(CRUMB_ERROR_ARGUMENT, "crumb_session_open: a null pointer");
  const crumb_options wanted = options ? *options : crumb_options{};
  if (const crumb_status status = runtime::c::check_options(wanted, "crumb_session_open"); status != CRUMB_OK)
    return status;
  return guarded(CRUMB_ERROR_ARGUMENT, [&] {
    auto made = std::make_unique<crumb_session>();
    made->opened = model->opened;
    made->options = wanted;
    *session = made.release();
  });
}

void crumb_session_close(crumb_session* session) { delete session; }

crumb_status crumb_run(crumb_session* session, const crumb_tensor* inputs, size_t count) {
  if (!session || (count > 0 && !inputs)) return failed(CRUMB_ERROR_ARGUMENT, "crumb_run: a null pointer");
  session->results.clear();
  session->cancelled = false;
  session->not_finite.watch.clear();
  const graph::NotFiniteScope watched(&session->not_finite.watch);
  std::shared_ptr<runtime::Meter> meter;
  const runtime::Model& model = session->opened->model;
  std::vector<runtime::Array> values;
  crumb_status status = guarded(CRUMB_ERROR_INPUT, [&] {
    meter = std::make_shared<runtime::Meter>(limits_of(session->options), &session->cancelled);
    const runtime::MeterScope scope(meter);
    const std::vector<std::string> names = names_given(*session);
    for (size_t i = 0; i < count; ++i)
      values.push_back(array_of(inputs[i], i < names.size() ? names[i] : std::to_string(i)));
    if (session->cache) {
      values = session->cache->complete(std::move(values));
    } else {
      runtime::check_inputs(model.graph(), values);
    }
  });
  if (status == CRUMB_OK) {
    status = guarded(CRUMB_ERROR_RUN, [&] {
      const runtime::MeterScope scope(meter);
      std::vector<Result> results;
      const bool fast = session->options.promise == CRUMB_FAST;
      const runtime::RunOptions options{.threads = session->options.threads,
                                        .promise = fast ? runtime::Promise::kFast : runtime::Promise::kExact,
                                        .arena = &session->arena};
      for (runtime::Array& made : session->cache ? session->cache->run_complete(std::move(values), options)
                                                 : model.run(std::move(values), options)) {
        Result& result = results.emplace_back(Result{std::move(made), {}});
        if (result.array.defined() && !result.array.is_stored_as_it_lies())
          result.stored = result.array.tensor();
      }
      session->results = std::move(results);
    });
  }
  if (meter) {
    session->peak = meter->peak();
    session->work = meter->work();
  }
  return status;
}

crumb_status crumb_result(const crumb_session* session, size_t index, crumb_tensor* output) {
  if (!session || !output) return failed(CRUMB_ERROR_ARGUMENT, "crumb_result: a null pointer");
  if (index >= session->results.size()) {
    return guarded(CRUMB_ERROR_ARGUMENT, [&] {
      throw crumb::Error(
          "result " + std::to_string(index) + " of " + std::to_string(session->results.size()) +
          (session->results.empty() ? ": the last run did not succeed, or there was none" : ""));
    });
  }
  const Result& result = session->results[index];
  if (!result.array.defined())
    return failed(CRUMB_ERROR_ARGUMENT, "crumb_result: the cache holds this output");
  const bool as_it_lies = result.array.is_stored_as_it_lies();
  *output = {static_cast<crumb_type>(graph::onnx_number(result.array.type())), result.array.shape().size(),
             result.array.shape().data(),
             as_it_lies ? static_cast<const void*>(result.array.data()) : result.stored.bytes().data(),
             as_it_lies ? result.array.bytes() : result.stored.bytes().size()};
  return CRUMB_OK;
}

uint64_t crumb_not_finite(crumb_session* session, const char** node) {
  if (node) *node = "";
  if (!session) return 0;
  std::uint64_t count = 0;
  (void)guarded(CRUMB_ERROR_RUN,
                [&] { count = session->not_finite.tell(session->opened->model.graph(), node); });
  return count;
}

void crumb_cancel(crumb_session* session) {
  if (session) session->cancelled = true;
}

crumb_status crumb_cache_open(crumb_session* session, uint64_t most, size_t* ties) {
  if (!session) return failed(CRUMB_ERROR_ARGUMENT, "crumb_cache_open: a null pointer");
  return guarded(CRUMB_ERROR_ARGUMENT, [&] {
    const auto places = crumb::checked::narrow<std::int64_t>(most);
    if (!places) throw crumb::Error("crumb_cache_open: " + std::to_string(most) + " places are too many");
    const runtime::Model& model = session->opened->model;
    runtime::Session made(model, runtime::find_ties(model.graph()), *places);
    if (ties) *ties = made.ties().size();
    session->cache.emplace(std::move(made));
    session->most_places = most;
    session->results.clear();
  });
}

crumb_status crumb_cache_tie(crumb_session* session, const char* past, const char* present, int64_t axis) {
  if (!session || !past || !present) return failed(CRUMB_ERROR_ARGUMENT, "crumb_cache_tie: a null pointer");
  return guarded(CRUMB_ERROR_ARGUMENT, [&] {
    std::vector<runtime::Tie> ties;
    if (session->cache) ties = session->cache->ties();
    ties.push_back({past, present, axis});
    runtime::Session made(session->opened->model, std::move(ties),
                          static_cast<std::int64_t>(session->most_places));
    session->cache.emplace(std::move(made));
    session->results.clear();
  });
}

int crumb_cache_holds_input(const crumb_session* session, size_t index) {
  return session && session->cache && session->cache->holds_input(index) ? 1 : 0;
}

int crumb_cache_holds_output(const crumb_session* session, size_t index) {
  return session && session->cache && session->cache->holds_output(index) ? 1 : 0;
}

uint64_t crumb_cache_length(const crumb_session* session) {
  return session && session->cache ? static_cast<uint64_t>(session->cache->length()) : 0;
}

uint64_t crumb_cache_memory(const crumb_session* session) {
  return session && session->cache ? session->cache->bytes() : 0;
}

crumb_status crumb_cache_truncate(crumb_session* session, uint64_t length) {
  return with_cache(session, CRUMB_ERROR_ARGUMENT, [&](runtime::Session& cache) {
    const auto places = crumb::checked::narrow<std::int64_t>(length);
    cache.truncate(places.value_or(std::numeric_limits<std::int64_t>::max()));
  });
}

crumb_status crumb_cache_reset(crumb_session* session) {
  return with_cache(session, CRUMB_ERROR_ARGUMENT, [](runtime::Session& cache) { cache.reset(); });
}

crumb_status crumb_cache_save(crumb_session* session, const void** bytes, size_t* size) {
  if (!bytes || !size) return failed(CRUMB_ERROR_ARGUMENT, "crumb_cache_save: a null pointer");
  return with_cache(session, CRUMB_ERROR_RUN, [&](runtime::Session& cache) {
    const SavedHead head = head_of(*session);
    const std::vector<std::byte> places = cache.save();
    session->saved.resize(sizeof head + places.size());
    std::memcpy(session->saved.data(), &head, sizeof head);
    std::ranges::copy(places, session->saved.begin() + sizeof head);
    *bytes = session->saved.data();
    *size = session->saved.size();
  });
}

crumb_status crumb_cache_restore(crumb_session* session, const void* bytes, size_t size) {
  if (!bytes) return failed(CRUMB_ERROR_ARGUMENT, "crumb_cache_restore: a null pointer");
  return with_cache(session, CRUMB_ERROR_INPUT, [&](runtime::Session& cache) {
    const std::span<const std::byte> saved(static_cast<const std::byte*>(bytes), size);
    check_head(saved, head_of(*session));
    cache.restore(saved.subspan(sizeof(SavedHead)));
  });
}

uint64_t crumb_peak_memory(const crumb_session* session) { return session ? session->peak : 0; }

uint64_t crumb_work(const crumb_session* session) { return session ? session->work : 0; }

}  // extern "C"
