// What is to be known of a result beside its figures: lines on stderr, which --json repeats. A run that was
// interrupted and continued says the same as one that was not.
#pragma once

#include <string>
#include <vector>

#include "formats/checkpoint/checkpoint.h"

namespace crumb::cli {

class Notes {
 public:
  /// Prints "note: ..." on stderr.
  void say(const std::string& text);
  /// Prints "warning: ..." instead: what makes a result useless, perhaps.
  void warn(const std::string& text);
  /// In order, without "note: ".
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::vector<std::string> all_;
};

/// "no output depends on 'pooler.dense.bias', ..." of tensors that the network of a checkpoint does not have, and that do not go
/// along with it. Precondition: one at least.
std::string text_of_unused(const std::vector<std::string>& names);

/// Says that a packed file does not take them along; nothing where there are none.
void note_unused(const std::vector<std::string>& names, Notes& notes);

/// Names what a model's folder holds that the packed file will not, and what crumb embed cannot run.
void note_folder(const Checkpoint& checkpoint, Notes& notes);

}  // namespace crumb::cli
