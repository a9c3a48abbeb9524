#include "formats/torch_pickle/pickle.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

#include "formats/torch_pickle/torch_globals.h"
#include "tests/formats/torch_pickle/pickle_samples.h"
#include "tests/support/samples.h"

namespace crumb {
namespace {

using namespace testing;

/// A tree as text, to compare with what Python would print. Depth is that of the samples.
std::string show(const PickleTree& tree, PickleId id) {
  switch (tree.kind(id)) {
    case PickleKind::kNone: return "None";
    case PickleKind::kBool: return tree.is_true(id) ? "True" : "False";
    case PickleKind::kInt: return std::to_string(tree.integer(id));
    case PickleKind::kBigInt: return "big";
    case PickleKind::kFloat: return "float";
    case PickleKind::kText: return "'" + std::string(tree.text(id)) + "'";
    case PickleKind::kBytes: return "b'" + std::string(tree.text(id)) + "'";
    case PickleKind::kGlobal: return std::string(torch_global(tree.global(id)).name);
    case PickleKind::kCall: return show(tree, tree.callee(id)) + show(tree, tree.arguments(id));
    case PickleKind::kPersistent: return "pid" + show(tree, tree.persistent(id));
    default: break;
  }
  std::string items;
  for (std::uint32_t item = tree.first(id); item != PickleTree::kEnd; item = tree.next(item))
    items += (items.empty() ? "" : " ") + show(tree, tree.value(item));
  switch (tree.kind(id)) {
    case PickleKind::kTuple: return "(" + items + ")";
    case PickleKind::kList: return "[" + items + "]";
    case PickleKind::kSet: return "set{" + items + "}";
    default: return "{" + items + "}";
  }
}

Result<PickleTree> read(const std::string& bytes) {
  return read_pickle(std::as_bytes(std::span(bytes)), find_torch_global);
}

std::string shown(const std::string& bytes) {
  const Result<PickleTree> tree = read(bytes);
  return tree.ok() ? show(tree.value(), tree.value().root()) : tree.failure().message;
}

std::string value(const std::string& opcodes) { return shown(pickle(opcodes)); }

std::string zero(std::string_view text) { return std::string(text); }

TEST_CASE("numbers of every opcode") {
  CHECK(value("K\xff") == "255");
  CHECK(value("M\xff\xfe") == "65279");
  CHECK(value("J\xfe\xff\xff\xff") == "-2");
  CHECK(value("J" + little(0x7fffffff, 4)) == "2147483647");
  CHECK(value(zero(std::string("\x8a\x00", 2))) == "0");
  CHECK(value("\x8a\x01\xff") == "-1");
  CHECK(value(std::string("\x8a\x02\xff\x00", 4)) == "255");
  CHECK(value("\x8a\x08" + little(INT64_MAX, 8)) == "9223372036854775807");
  CHECK(value("\x8a\x08" + little(1ull << 63, 8)) == "-9223372036854775808");
  CHECK(value("\x8a\x09" + little(0, 8) + "\x01") == "big");
  CHECK(value("\x8b" + little(2, 4) + std::string("\x00\x01", 2)) == "256");
  CHECK(value("\x8b" + little(300, 4) + std::string(300, 'x')) == "big");
  CHECK(value("G" + std::string(8, '\0')) == "float");
  CHECK(value("N") == "None");
  CHECK(value("\x88") == "True");
  CHECK(value("\x89") == "False");
}

TEST_CASE("strings and bytes of every opcode") {
  CHECK(value("\x8c\x03"
              "abc") == "'abc'");
  CHECK(value("X" + little(3, 4) + "abc") == "'abc'");
  CHECK(value("\x8d" + little(3, 8) + "abc") == "'abc'");
  CHECK(value(std::string("\x8c\x00", 2)) == "''");
  CHECK(value("C\x03"
              "abc") == "b'abc'");
  CHECK(value("B" + little(3, 4) + "abc") == "b'abc'");
  CHECK(value("\x8e" + little(3, 8) + "abc") == "b'abc'");
  CHECK(value("\x96" + little(3, 8) + "abc") == "b'abc'");
}

TEST_CASE("what Python 2 writes: strings, integers and ordered dictionaries of pairs") {
  CHECK(value("U\x03"
              "abc") == "'abc'");
  CHECK(value("T" + little(3, 4) + "abc") == "'abc'");
  CHECK(value("I-1099511627776\n") == "-1099511627776");
  CHECK(value("I00\nI01\nN\x87") == "(False True None)");
  CHECK(says(value("I12x\n"), {"INT", "'12x'", "64 bits"}));
  CHECK(says(value("I99999999999999999999\n"), {"64 bits"}));
  CHECK(says(value("I12"), {"cut short", "number at byte 3"}));

  const std::string ordered = global("collections", "OrderedDict");
  CHECK(value(call(ordered, list(list("N", number(1)), tuple(text("k"), "]")) + "\x85")) ==
        "{None 1 'k' []}");
  CHECK(value(call(ordered, "]\x85")) == "{}");
  CHECK(value(call(ordered, list(list(number(1), "N")) + "\x85") + "(" + number(2) + "Nu") ==
        "{1 None 2 None}");
  CHECK(says(value(call(ordered, "N\x85")), {"made with arguments that are no list of pairs"}));
  CHECK(says(value(call(ordered, "]]\x86")), {"made with arguments that are no list of pairs"}));
  CHECK(says(value(call(ordered, list("N") + "\x85")), {"no pair"}));
  CHECK(says(value(call(ordered, list(list("N")) + "\x85")), {"no pair"}));
  // Otherwise a few bytes for each use of the list would make as many entries as it has.
  std::string repeated = "](";
  for (int i = 0; i < 1000; ++i) repeated += list(number(i), "N");
  repeated +=
      "eq\x01"
      "0](";
  for (int i = 0; i < 1000; ++i) repeated += call(ordered, "h\x01\x85");
  CHECK(says(value(repeated + "e"), {"over and over"}));
}

TEST_CASE("a pickle that other bytes follow") {
  const std::string first = pickle(number(7)), both = first + pickle("N");
  const Result<PickleTree> tree = read_leading_pickle(std::as_bytes(std::span(both)), find_torch_global);
  REQUIRE(tree.ok());
  CHECK(tree.value().byte_size() == first.size());
  CHECK(tree.value().integer(tree.value().root()) == 7);
  CHECK(says(shown(both),
             {"4 bytes after its STOP opcode at byte ", std::to_string(first.size() - 1).c_str()}));
}

TEST_CASE("containers of every opcode") {
  CHECK(value(")") == "()");
  CHECK(value("N\x85") == "(None)");
  CHECK(value("NK\x01\x86") == "(None 1)");
  CHECK(value("NK\x01K\x02\x87") == "(None 1 2)");
  CHECK(value("(NNNNt") == "(None None None None)");
  CHECK(value("(t") == "()");
  CHECK(value("]") == "[]");
  CHECK(value("]Na") == "[None]");
  CHECK(value("](NK\x05"
              "e(K\x06"
              "e") == "[None 5 6]");
  CHECK(value("]K\x01"
              "a]K\x02"
              "a0") == "[1]");
  CHECK(value("}") == "{}");
  CHECK(value("}K\x01Ns") == "{1 None}");
  CHECK(value("}(K\x01NK\x02Nu(u") == "{1 None 2 None}");
  CHECK(value("\x8f") == "set{}");
  CHECK(value("\x8f(K\x01K\x02\x90") == "set{1 2}");
  CHECK(value("(K\x01K\x02\x91") == "set{1 2}");
  CHECK(value("K\x01(K\x02K\x03"
              "1") == "1");        // POP_MARK
  CHECK(value("K\x01(0") == "1");  // POP of a mark
}

TEST_CASE("the memo shares values, and what is shared sees later entries") {
  CHECK(value("]q\x01h\x01N\x87") == "([] [] None)");
  CHECK(value("](]q\x01h\x01K\x07"
              "ae") == "[[7] [7]]");
  CHECK(value("](]r" + little(2, 4) + "j" + little(2, 4) +
              "K\x07"
              "ae") == "[[7] [7]]");
  CHECK(value("](]\x94h" + std::string(1, '\0') +
              "K\x07"
              "ae") == "[[7] [7]]");
  CHECK(value("h\x01") == "the pickle is damaged at byte 2: memo entry 1 was never set");
  CHECK(says(value("Nr" + little(1 << 30, 4)), {"byte 3", "memo entry 1073741824 is out of order"}));
}

TEST_CASE("frames and protocols") {
  CHECK(shown("\x80\x05\x95" + little(2, 8) + "N.") == "None");
  CHECK(shown("N.") == "None");
  CHECK(says(shown("\x80\x05\x95" + little(1000, 8) + "N."), {"cut short", "byte 2", "1000 bytes"}));
  CHECK(says(shown("\x80\x06N."), {"byte 0", "pickle protocol 6", "2 to 5"}));
  CHECK(says(shown("\x80\x01N."), {"pickle protocol 1"}));
  CHECK(says(shown("\x80\x02\x80\x02N."), {"byte 2", "PROTO"}));
}

TEST_CASE("globals, calls, persistent ids and dictionary state") {
  CHECK(value(global("torch", "float32")) == "torch.float32");
  CHECK(value(text("torch") + text("float32") + "\x93") == "torch.float32");
  CHECK(value(call(global("torch", "device"), tuple(text("cpu")))) == "torch.device('cpu')");
  CHECK(value(global("torch", "Size") + "(t\x81") == "torch.Size()");
  CHECK(value(global("__builtin__", "set") + "]\x85R") == "builtins.set([])");
  CHECK(value(call(global("collections", "OrderedDict"), ")") + "K\x01Ns") == "{1 None}");
  CHECK(value(hooks() + dict(text("_metadata"), hooks()) + "b") == "{}");
  CHECK(value(tuple(text("storage"), number(1)) + "Q") == "pid('storage' 1)");
}

TEST_CASE("what is outside the allow-list is refused with its name, whatever opcode asks for it") {
  CHECK(says(value(global("os", "system") + tuple(text("true")) + "R"), {"'os.system'", "nothing was run"}));
  CHECK(says(value(global("posix", "system")), {"'posix.system' ('os.system')", "distrust"}));
  CHECK(says(value(text("nt") + text("system") + "\x93"), {"'nt.system' ('os.system')"}));
  CHECK(says(value("(ios\nsystem\n"), {"'os.system'"}));
  CHECK(says(shown("cos\nsystem\n(S'true'\ntR."), {"'os.system'"}));
  CHECK(says(value(global("__builtin__", "eval")), {"'builtins.eval'", "distrust"}));
  CHECK(says(value(global("numpy.core.multiarray", "_reconstruct")),
             {"'numpy.core.multiarray._reconstruct'", "NumPy arrays"}));
  CHECK(says(value(global("__main__", "Net")), {"'__main__.Net'", "whole pickled object", "state_dict()"}));
  CHECK(says(value(global("torch.nn.modules.linear", "Linear")), {"'torch.nn.modules.linear.Linear'"}));
  // Near misses, names with dots inside, and names to be printed with care.
  CHECK(says(value(global("torch", "FloatStorage.from_file")), {"'torch.FloatStorage.from_file'"}));
  CHECK(says(value(global("torch._utils._rebuild_tensor_v2", "__globals__")), {"__globals__"}));
  CHECK(says(value(global("torch", "float32 ")), {"'torch.float32 '"}));
  CHECK(says(value(global("", "")), {"'.'"}));
  CHECK(says(value(global("a\x1b[31m", "b\xff")), {"a\\x1b[31m.b\\xff"}));
  for (const TorchGlobal& known : torch_globals()) CHECK(find_torch_global(known.name).ok());
}

TEST_CASE("damage is told with its place") {
  CHECK(says(value("S'x'\n"), {"byte 2", "opcode 0x53 ('S')"}));
  CHECK(says(value("\xff"), {"byte 2", "opcode 0xff is"}));
  CHECK(says(value("0"), {"more values than there are"}));
  CHECK(says(value("t"), {"takes a mark"}));
  CHECK(says(value("N(a"), {"more values"}));
  CHECK(says(value("(N"), {"1 values and 1 marks"}));
  CHECK(says(value("NN"), {"2 values and 0 marks"}));
  CHECK(says(value(""), {"0 values"}));
  CHECK(says(shown("\x80\x02N.N"), {"1 byte after its STOP"}));
  CHECK(says(shown("\x80\x02N"), {"ends without its STOP"}));
  CHECK(says(shown(""), {"ends without its STOP"}));
  CHECK(says(value("NNa"), {"entries for a list are put into None"}));
  CHECK(says(value("]NNs"), {"entries for a dictionary are put into a list"}));
  CHECK(says(value("}(Nu"), {"a key without a value"}));
  CHECK(says(value("](N\x90"), {"entries for a set are put into a list"}));
  CHECK(says(value("NNR"), {"it calls None"}));
  CHECK(says(value(global("torch", "Size") + "NR"), {"arguments of a call are None"}));
  CHECK(says(value(call(global("collections", "OrderedDict"), "N\x85")), {"made with arguments"}));
  CHECK(says(value(global("torch", "Size") + ")R}b"), {"BUILD gives an object the state a dictionary"}));
  CHECK(says(value("}Nb"), {"BUILD"}));
  CHECK(says(value("NN\x93"), {"no string"}));
  CHECK(says(value("X" + little(0xffffffff, 4) + "ab"), {"cut short", "4294967295"}));
  CHECK(says(value("\x8d" + little(UINT64_MAX, 8) + "ab"), {"cut short"}));
  CHECK(says(value("\x8b" + little(0xffffffff, 4) + "ab"), {"cut short"}));
  CHECK(says(shown("\x80\x02"
                   "ctorch"),
             {"the name at byte 3 does not end"}));
  CHECK(says(value(global(std::string(5000, 'a'), "b")), {"too long"}));
}

TEST_CASE("every opcode but those of the samples is refused, with any bytes before it and after") {
  const std::string known =
      "(.01BCGIJKMNQRTUXabcehijqrstu)]}\x80\x81\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x93"
      "\x94\x95\x96";
  for (int opcode = 0; opcode < 256; ++opcode) {
    const bool is_known = known.find(static_cast<char>(opcode)) != std::string::npos;
    const std::string message =
        value("N" + std::string(1, static_cast<char>(opcode)) + std::string(20, '\0'));
    CAPTURE(opcode);
    CHECK((message.find("at byte 3: opcode 0x") == std::string::npos) == is_known);
  }
}

TEST_CASE("random opcodes end in a value or a failure, quickly") {
  const std::string alphabet = "(.01NQRabehqrstu)]}\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x93\x94KX";
  std::mt19937 random(4);
  int values = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string body = "\x80\x04";
    for (auto i = random() % 60; i > 0; --i) {
      if (random() % 8 == 0)
        body += global("torch", "Size");
      else
        body += alphabet[random() % alphabet.size()];
      if (random() % 4 == 0) body += static_cast<char>(random() % 4);
    }
    body += '.';
    values += read(body).ok();
  }
  CHECK(values > 20);
}

}  // namespace
}  // namespace crumb
