#include "ptq/rounding/layer_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/inputs.h"
#include "base/files/mapped_file.h"
#include "base/files/partial.h"
#include "base/files/text.h"
#include "base/json/bounded_json.h"
#include "base/text/number.h"
#include "formats/crumb_file/writer.h"
#include "quant/packed/packed_tensor.h"

namespace crumb::ptq {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kModel = "layers on their way";  // the files' model name
constexpr const char* kNotes = "layers.json";
constexpr std::size_t kDigits = 5;  // of a file's number, at least

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
  QuantizedTensor tensor = lend_encoded(file, *packed).take();
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

/// A station's file that an earlier run left.
struct Left {
  RunIdentity run;
  std::vector<StoredLayer> layers;
};

Left read_file(const fs::path& path) {
  const OwnFiles own;
  const auto file = std::make_shared<const CrumbFile>(CrumbFile::open(path).take());
  const json notes = notes_of(*file);
  std::optional<RunIdentity> run = identity_of(notes.at("run").get<std::string>());
  if (!run) throw Error("no file of a run");
  Left left{.run = std::move(*run), .layers = {}};
  for (const json& layer : notes.at("layers")) left.layers.push_back(layer_from(layer, file));
  for (const StoredLayer& layer : left.layers) layer.codes.tensor->check_codes();
  return left;
}

/// Returns nothing where there is no file, or it is damaged.
std::optional<Left> sound_file(const fs::path& path) {
  try {
    return read_file(path);
  } catch (const json::exception&) {
    return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Returns the number in a file name of path().
std::optional<std::size_t> station_of(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::size_t digits = name.find_first_not_of("0123456789");
  if (digits == std::string::npos || digits < kDigits) return std::nullopt;
  const std::string rest = name.substr(digits);
  if (rest != ".crumb" && rest != ".crumb.partial") return std::nullopt;
  return parse_number<std::size_t>(name.substr(0, digits));
}

fs::path file_in(const fs::path& folder, std::size_t station) {
  std::string number = std::to_string(station);
  if (number.size() < kDigits) number.insert(0, kDigits - number.size(), '0');
  return folder / (number + ".crumb");
}

/// Removes files of stations from `first` on. Throws Error where there are some and no run created the
/// folder.
void remove_files(const fs::path& folder, std::size_t first) {
  std::vector<fs::path> gone;
  struct stat info = {};
  const bool is_own = ::lstat(folder.c_str(), &info) == 0 && is_marked_partial(info);
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    if (const auto number = station_of(entry.path()); number && *number >= first)
      gone.push_back(entry.path());
  if (!gone.empty() && !is_own)
    throw Error("codes of layers on their way lie in " + quote_text(folder.native()) +
                ", which exists and which no run of crumb left there; move it away or choose another output");
  for (const fs::path& path : gone) refuse_input(path);
  for (const fs::path& path : gone) fs::remove(path, ignored);
}

void refuse_others(const fs::path& output, const RunIdentity& then, const RunIdentity& now) {
  if (const std::string why = difference(then, now); !why.empty())
    throw Error("cannot continue " + quote_text(output.string()) + ": " + why +
                "\nwithout --resume the run starts afresh");
}

}  // namespace

fs::path LayerFiles::folder_of(const fs::path& output) {
  return RunJournal::path_of(output).replace_extension("layers");
}

void LayerFiles::settle(const fs::path& output, const RunIdentity& identity, bool resume) {
  const fs::path folder = folder_of(output);
  const std::optional<Left> left = resume ? sound_file(file_in(folder, 0)) : std::nullopt;
  if (left) {
    refuse_others(output, left->run, identity);
    throw Error("cannot continue " + quote_text(output.string()) +
                ": the run that was ended rounds layers on samples" +
                "\nwithout --resume the run starts afresh");
  }
  remove_files(folder, 0);
  std::error_code ignored;
  fs::remove(folder, ignored);  // only if it is empty
}

LayerFiles::LayerFiles(const fs::path& output, const RunIdentity& identity, bool resume)
    : folder_(folder_of(output)), identity_(text_of(identity)), keeps_(resume), lock_(std::in_place, output) {
  if (resume) take_over(output, identity);
  remove_from(left_.size());
  if (::mkdir(folder_.c_str(), 0777 | kPartialMark) != 0 && (errno != EEXIST || !fs::is_directory(folder_)))
    throw Error("cannot make the folder " + quote_text(folder_.string()) + ": " + errno_text(errno));
}

LayerFiles::~LayerFiles() {
  std::error_code ignored;
  if (!keeps_) {
    try {
      remove_from(0);
    } catch (const Error&) {  // another process put something there meanwhile: it stays
    }
  }
  fs::remove(folder_, ignored);  // only if it is empty
}

void LayerFiles::take_over(const fs::path& output, const RunIdentity& identity) {
  while (std::optional<Left> left = sound_file(path(left_.size()))) {
    refuse_others(output, left->run, identity);
    continued_ += left->layers.size();
    left_.push_back(std::move(left->layers));
  }
}

fs::path LayerFiles::path(std::size_t station) const { return file_in(folder_, station); }

void LayerFiles::remove_from(std::size_t station) const { remove_files(folder_, station); }

std::optional<std::vector<StoredLayer>> LayerFiles::next(const std::vector<std::string>& constants) {
  if (next_ >= left_.size()) return std::nullopt;
  if (!std::ranges::equal(left_[next_], constants, {}, &StoredLayer::constant)) {
    left_.resize(next_);
    remove_from(next_);
    return std::nullopt;
  }
  for (const StoredLayer& layer : left_[next_]) passed_.push_back(layer.codes.tensor);
  return std::move(left_[next_++]);
}

std::vector<StoredLayer> LayerFiles::keep(std::vector<StoredLayer> layers) {
  json notes = {{"run", identity_}, {"layers", json::array()}};
  CrumbHeader plan{.model = kModel, .tensors = {}, .files = {}};
  for (const StoredLayer& layer : layers) {
    const QuantizedTensor& tensor = *layer.codes.tensor;
    notes["layers"].push_back(to_json(layer));
    plan.tensors.push_back(
        plan_encoded(layer.constant, DType::kF32, tensor.shape, tensor.spec, tensor.encoding));
  }
  const std::string text = notes.dump();
  plan.files.push_back({kNotes, Blob{.raw = text.size()}});
  CrumbWriter writer(path(next_), std::move(plan));
  for (const StoredLayer& layer : layers)
    write_encoded(writer, *layer.codes.tensor, layer.codes.tensor->encoding.codes);
  writer.write(std::as_bytes(std::span(text)));
  writer.finish();
  for (const std::shared_ptr<const QuantizedTensor>& tensor : passed_) tensor->release_codes();
  layers = read_file(path(next_++)).layers;
  for (const StoredLayer& layer : layers) passed_.push_back(layer.codes.tensor);
  return layers;
}

}  // namespace crumb::ptq
