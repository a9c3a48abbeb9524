// Keeps a run's outputs apart from its inputs. Whoever opens a file or a folder to read it notes it here, and
// whoever creates, replaces or removes one asks here first. Both are compared by device and inode (and time
// of birth, where the file system knows one), so that links and other spellings do not matter. The second of
// the two throws: an input that an announced output would replace is refused when it is opened, before any
// work.
//
// Inputs are remembered while an InputWatch lives: the crumb command holds one while it runs. A program that
// uses the library may hold one for each of its own runs; without one nothing is remembered and nothing
// refused.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace crumb {

/// While one lives, in the whole process, inputs and announced outputs are remembered. The last one's
/// destructor forgets them.
class InputWatch {
 public:
  InputWatch();
  InputWatch(const InputWatch&) = delete;
  InputWatch& operator=(const InputWatch&) = delete;
  ~InputWatch();
};

/// While one lives on this thread, files that are opened are not inputs: what an earlier run left to be
/// continued or replaced.
class OwnFiles {
 public:
  OwnFiles();
  OwnFiles(const OwnFiles&) = delete;
  OwnFiles& operator=(const OwnFiles&) = delete;
  ~OwnFiles();
};

/// Notes a file that is open for reading, under the name by which it was found. A file that this run wrote is
/// no input. Throws usage Error where an announced output is this file, or is a folder that holds it.
void note_input(int fd, const std::filesystem::path& name);

/// Notes a folder that is read as one (a model's, an adapter's). Throws usage Error where an announced output
/// is this folder, holds it, or lies in it. Does nothing where there is no such folder.
///
/// New files .crumb and .gguf may lie in it, where they are no inputs themselves: a run that reads a folder
/// has its files in hand by then, so that writing one changes nothing that is read.
void note_input_folder(const std::filesystem::path& folder);

/// Notes a file or folder that this run created.
void note_made(int fd);

/// Throws usage Error where the file that is to be created, replaced or removed is an input, or lies in an
/// input folder and is neither .crumb nor .gguf. `output` is the path that a person named, where it differs
/// ("is first written with").
void refuse_input(const std::filesystem::path& path, const std::filesystem::path& output = {});

/// The same for a folder that is to be replaced or removed with its contents; also where it holds an input.
void refuse_input_folder(const std::filesystem::path& folder, const std::filesystem::path& output = {});

/// Checks as refuse_input and, where `output` is a folder, refuse_input_folder do, against these inputs
/// alone, whether or not an InputWatch lives: both the output and what is written `beside` it.
void refuse_these_inputs(const std::vector<std::filesystem::path>& inputs,
                         const std::filesystem::path& output,
                         const std::vector<std::filesystem::path>& beside);

/// Checks a file and those that are written with it as refuse_input does, and again for each input that is
/// opened later.
void announce_output(const std::filesystem::path& file,
                     const std::vector<std::filesystem::path>& beside = {});

/// The same for a folder that is written as a whole.
void announce_output_folder(const std::filesystem::path& folder,
                            const std::vector<std::filesystem::path>& beside = {});

}  // namespace crumb
