#include "ptq/rounding/layer_files.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/inputs.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "base/json/bounded_json.h"
#include "formats/crumb_file/writer.h"
#include "quant/packed/packed_tensor.h"

namespace crumb::ptq {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kModel = "layers on their way";  // the files' model name
constexpr const char* kNotes = "layers.json";

/// Stores doubles as their bits, because JSON has no exact decimals.
json to_json(const StoredLayer& layer) {
  return {{"constant", layer.constant},
          {"axes", layer.codes.axes},
          {"saturated", layer.codes.tensor->saturated_scales},
          {"before", std::bit_cast<std::uint64_t>(layer.before)},
          {"after", std::bit_cast<std::uint64_t>(layer.after)},
          {"tried", std::bit_cast<std::uint64_t>(layer.tried)},
          {"notes", layer.notes}};
}

StoredLayer layer_from(const json& object, const std::shared_ptr<const CrumbFile>& file) {
  StoredLayer layer{.constant = object.at("constant").get<std::string>()};
  const PackedTensor* packed = file->find(layer.constant);
  if (!packed || !packed->encoding) throw Error("no tensor " + quote_text(layer.constant));
  QuantizedTensor tensor = borrow_encoded(file, *packed).take();
  object.at("saturated").get_to(tensor.saturated_scales);
  layer.codes.tensor = std::make_shared<const QuantizedTensor>(std::move(tensor));
  object.at("axes").get_to(layer.codes.axes);
  layer.before = std::bit_cast<double>(object.at("before").get<std::uint64_t>());
  layer.after = std::bit_cast<double>(object.at("after").get<std::uint64_t>());
  layer.tried = std::bit_cast<double>(object.at("tried").get<std::uint64_t>());
  object.at("notes").get_to(layer.notes);
  return layer;
}

/// Returns what a station's file says about its layers. Throws Error where it is no such file, or damaged.
json notes_of(const CrumbFile& file) {
  const PackedFile* notes = file.find_file(kNotes);
  if (file.header().model != kModel || !notes) throw Error("no file of layers");
  const BlobBytes bytes = file.load(notes->blob, kNotes).take();
  return parse_bounded_json(bytes.bytes()).take();
}

std::vector<StoredLayer> read_file(const fs::path& path) {
  const OwnFiles own;
  const auto file = std::make_shared<const CrumbFile>(CrumbFile::open(path).take());
  std::vector<StoredLayer> layers;
  const json notes = notes_of(*file);
  for (const json& layer : notes.at("layers")) layers.push_back(layer_from(layer, file));
  for (const StoredLayer& layer : layers) layer.codes.tensor->check_codes();
  return layers;
}

/// Returns nothing where there is no file, or it is damaged.
std::optional<std::vector<StoredLayer>> sound_file(const fs::path& path) {
  try {
    return read_file(path);
  } catch (const json::exception&) {
    return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

LayerFiles::LayerFiles(const fs::path& output, const RunIdentity& identity, bool resume)
    : files_(output), keeps_(resume) {
  // Before the output is locked, which empties a partial file that another run's journal speaks of.
  const std::optional<JournalContents> left =
      resume ? RunJournal::to_continue(output, identity) : std::nullopt;
  lock_.emplace(output);
  if (left) take_over();
  journal_.emplace(output, identity, left ? left->begin : 0);
  journal_->keep(resume);
  files_.make_folder();
}

LayerFiles::~LayerFiles() {
  try {
    if (!keeps_) files_.remove_from(0);
  } catch (const Error&) {  // another process put something there meanwhile: it stays
  }
  std::error_code ignored;
  fs::remove(files_.folder(), ignored);  // only if it is empty
}

void LayerFiles::take_over() {
  while (auto layers = sound_file(files_.path(left_.size()))) {
    continued_ += layers->size();
    left_.push_back(std::move(*layers));
  }
  files_.remove_from(left_.size());
}

void LayerFiles::finish() {
  keeps_ = false;
  journal_->keep(false);
}

std::optional<std::vector<StoredLayer>> LayerFiles::next(const std::vector<std::string>& constants) {
  if (next_ >= left_.size()) return std::nullopt;
  if (!std::ranges::equal(left_[next_], constants, {}, &StoredLayer::constant)) {
    left_.resize(next_);
    files_.remove_from(next_);
    files_.make_folder();
    return std::nullopt;
  }
  for (const StoredLayer& layer : left_[next_]) passed_.push_back(layer.codes.tensor);
  return std::move(left_[next_++]);
}

std::vector<StoredLayer> LayerFiles::keep(std::vector<StoredLayer> layers) {
  json notes = {{"layers", json::array()}};
  CrumbHeader plan{.model = kModel, .tensors = {}, .files = {}};
  for (const StoredLayer& layer : layers) {
    const QuantizedTensor& tensor = *layer.codes.tensor;
    notes["layers"].push_back(to_json(layer));
    plan.tensors.push_back(
        plan_encoded(layer.constant, DType::kF32, tensor.shape, tensor.spec, tensor.encoding));
  }
  const std::string text = notes.dump();
  plan.files.push_back({kNotes, Blob{.raw = text.size()}});
  CrumbWriter writer(files_.path(next_), std::move(plan));
  for (const StoredLayer& layer : layers)
    write_encoded(writer, *layer.codes.tensor, layer.codes.tensor->encoding.codes);
  writer.write(std::as_bytes(std::span(text)));
  writer.finish();
  for (const std::shared_ptr<const QuantizedTensor>& tensor : passed_) tensor->release_codes();
  layers = read_file(files_.path(next_++));
  for (const StoredLayer& layer : layers) passed_.push_back(layer.codes.tensor);
  return layers;
}

}  // namespace crumb::ptq
