// crumb passes fold-norms of a checkpoint: writes the same checkpoint as a model's folder.
#pragma once

#include <string>
#include <vector>

#include "export/folder/model_folder.h"
#include "graph/passes/passes.h"

namespace crumb::cli {

struct FoldedFolder {
  std::vector<graph::PassRemark> remarks;
  exporting::FolderReport report;
};

/// Writes a checkpoint of a known architecture with its norms folded (models/folded_norms.h) into a folder,
/// in files of at most `shard`, which is as the flag gives it. Configuration and tokenizer stay as they are,
/// except that the configuration says float32 where a tensor of its dtype became wider. Throws Error.
FoldedFolder fold_norms_into_folder(const std::string& input, const std::string& folder,
                                    const std::string& shard);

}  // namespace crumb::cli
