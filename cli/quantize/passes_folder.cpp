#include "cli/quantize/passes_folder.h"

#include "base/files/text.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "export/folder/float_source.h"
#include "jobs/checkpoint_notes.h"
#include "jobs/folder_output.h"
#include "models/configured_network.h"
#include "models/folded_norms.h"

namespace crumb::cli {
namespace {

/// A checkpoint, with some of its tensors changed.
class FoldedContent final : public exporting::FolderContent {
 public:
  FoldedContent(const exporting::FloatSource& source, const models::FoldedNorms& folded)
      : source_(source), folded_(folded) {}

  std::vector<TensorDescription> tensors() const override {
    std::vector<TensorDescription> tensors = source_.tensors();
    for (TensorDescription& tensor : tensors)
      tensor.dtype = folded_.changes(tensor.name).value_or(tensor.dtype);
    return tensors;
  }

  void read_tensor(std::string_view name, const std::filesystem::path& scratch, int threads,
                   const Sink& sink) const override {
    if (folded_.changes(name)) return folded_.read(name, sink);
    source_.read_tensor(name, scratch, threads, sink);
  }

  const std::vector<std::string>& files() const override { return source_.files(); }

  void read_file(const std::string& path, const Sink& sink) const override { source_.read_file(path, sink); }

 private:
  const exporting::FloatSource& source_;
  const models::FoldedNorms& folded_;
};

}  // namespace

FoldedFolder fold_norms_into_folder(const std::string& input, const std::string& folder,
                                    const std::string& shard) {
  const std::string size = shard.empty() ? jobs::kUsualShard : shard;
  const std::uint64_t shard_bytes = jobs::shard_bytes_of(size, terminal());
  const exporting::FloatSource source(input, exporting::FloatTypes::kAsStored);
  if (const Checkpoint* checkpoint = source.source().checkpoint())
    jobs::note_reading(*checkpoint, terminal());
  if (source.unused_head()) Notes().say(models::note_of_unused_head(*source.unused_head()));
  const models::FoldedNorms folded(source.source(), quote_text(input));
  FoldedFolder made{.remarks = folded.remarks(), .report = {}};
  made.report =
      jobs::write_folder_with_notes(FoldedContent(source, folded), folder,
                                    {.shard_bytes = shard_bytes,
                                     .input = input,
                                     .metadata = {{"format", "pt"}, {"writer", "crumb passes fold-norms"}}},
                                    "folding norms", size, terminal());
  return made;
}

}  // namespace crumb::cli
