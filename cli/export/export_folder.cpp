#include "cli/export/export_folder.h"

#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <string_view>
#include <vector>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "export/compressed_tensors/content.h"
#include "export/folder/float_source.h"
#include "export/folder/same_values.h"
#include "jobs/checkpoint_notes.h"
#include "jobs/folder_output.h"
#include "models/configured_network.h"

namespace crumb::cli {
namespace {

using exporting::FolderReport;

struct Written {
  FolderReport folder;
  std::vector<std::string> notes;
  std::optional<std::size_t> matrices;  ///< number of quantized ones
  bool is_same = false;                 ///< whether every number that was read back is what was written
};

void print_folder(const ExportFolderRequest& request, const Written& written) {
  if (request.json) {
    Json json = {{"output", request.output},
                 {"to", request.to},
                 {"tensors", written.folder.tensors},
                 {"files", written.folder.files}};
    if (written.matrices) json["quantized"] = *written.matrices;
    json["notes"] = written.notes;
    return print_json(json);
  }
  for (const std::string& note : written.notes) std::cerr << "note: " << printable(note) << "\n";
  std::cout << request.output << "  " << request.to << ", " << count_text(written.folder.tensors, "tensor")
            << " in " << count_text(written.folder.files, "file");
  if (written.matrices)
    std::cout << ", " << count_text(*written.matrices, "quantized matrix", "quantized matrices");
  std::cout << (written.is_same ? "; read back, all numbers are the same" : "") << "\n";
}

FolderReport write(const ExportFolderRequest& request, const exporting::FolderContent& content,
                   std::function<void(const std::filesystem::path& written)> check = {}) {
  return jobs::write_folder_with_notes(content, request.output,
                                       {.shard_bytes = jobs::shard_bytes_of(request.shard, terminal()),
                                        .input = request.input,
                                        .metadata = {{"format", "pt"}, {"writer", "crumb export"}},
                                        .check = std::move(check)},
                                       "exporting", request.shard, terminal());
}

Written write_floats(const ExportFolderRequest& request) {
  const exporting::FloatSource source(request.input);
  if (const Checkpoint* checkpoint = source.source().checkpoint())
    jobs::note_reading(*checkpoint, terminal());
  Written written{.folder = {}, .notes = models::notes_of_quantizers(source.source())};
  const std::string cost = jobs::write_with_dtype(
      source, request.dtype, terminal(),
      [&](const exporting::FolderContent& content) { written.folder = write(request, content); });
  if (!cost.empty()) written.notes.push_back(cost);
  if (source.unused_head()) written.notes.push_back(models::note_of_unused_head(*source.unused_head()));
  return written;
}

Written write_compressed(const ExportFolderRequest& request) {
  const TensorSource source = TensorSource::open(request.input);
  if (source.crumb() == nullptr)
    throw Error(quote_text(request.input) + " is a " + std::string(source.kind()) +
                ", expected a packed file (.crumb): crumb quantize makes one");
  models::expect_network_of_configuration(source);
  const exporting::compressed_tensors::Content content(*source.crumb(), request.allow_approximate);
  exporting::ValueDifference difference;
  const auto check = [&](const std::filesystem::path& folder) {
    difference = exporting::compare_folder(source, folder);
    if (difference.count == 0 || content.is_approximate()) return;
    throw Error("read back, " + count_text(difference.count, "number") + " of " + quote_text(request.output) +
                " differ from what was meant, the first in tensor " + quote_text(difference.tensor) +
                "; please report it");
  };
  Written written{.folder = write(request, content, check),
                  .notes = content.notes(),
                  .matrices = content.quantized(),
                  .is_same = difference.count == 0};
  for (std::string& note : models::notes_of_quantizers(source)) written.notes.push_back(std::move(note));
  if (!written.is_same)
    written.notes.push_back(count_text(difference.count, "number") + " differ, by at most " +
                            fixed(100 * difference.largest, 3) + " %");
  return written;
}

}  // namespace

void write_export_folder(ExportFolderRequest request) {
  if (request.shard.empty()) request.shard = jobs::kUsualShard;
  jobs::claim_folder(request.input, request.output, terminal());
  jobs::shard_bytes_of(request.shard,
                       terminal());  // what is wrong with a flag is said before files are opened
  print_folder(request, request.to == kCompressedTensors ? write_compressed(request) : write_floats(request));
}

}  // namespace crumb::cli
