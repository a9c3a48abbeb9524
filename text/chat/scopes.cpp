// Finds the names of each scope, as jinja2's compiler does (its idtracking): a name that a scope sets is the
// scope's own from the beginning, whether it is set yet or not. Where it is read first, or is set in one
// branch of an `if` only, it begins with its value outside.
#include <set>
#include <utility>

#include "text/chat/syntax.h"

namespace crumb::text::chat {
namespace {

struct Symbols {
  const Symbols* outer = nullptr;
  ScopeNames names;
  std::set<Symbol> stored;

  bool knows(Symbol name) const { return names.contains(name) || (outer != nullptr && outer->knows(name)); }
  bool outer_knows(Symbol name) const { return outer != nullptr && outer->knows(name); }

  void parameter(Symbol name) {
    stored.insert(name);
    names[name] = Load::kParameter;
  }
  void store(Symbol name) {
    stored.insert(name);
    names.try_emplace(name, outer_knows(name) ? Load::kOuter : Load::kMissing);
  }
  void load(Symbol name) {
    if (!knows(name)) names[name] = Load::kContext;
  }
  void join(const std::vector<Symbols>& branches) {
    std::set<Symbol> newly;
    for (const Symbols& branch : branches) newly.insert(branch.stored.begin(), branch.stored.end());
    for (const Symbol name : stored) newly.erase(name);
    for (const Symbols& branch : branches) {
      for (const auto& [name, how] : branch.names) names[name] = how;
      stored.insert(branch.stored.begin(), branch.stored.end());
    }
    for (const Symbol name : newly) names[name] = outer_knows(name) ? Load::kOuter : Load::kContext;
  }
};

/// Visits what is in a scope itself, not in the scopes inside.
class Visitor {
 public:
  explicit Visitor(Symbols& symbols) : symbols_(&symbols) {}

  void visit(const Node* node) {
    if (node == nullptr) return;
    switch (node->kind) {
      case NodeKind::kName:
      case NodeKind::kSetAttribute: symbols_->load(node->symbol); return;
      case NodeKind::kFor: return visit(node->parts[1].get());
      case NodeKind::kMacro: symbols_->store(node->symbol); return;
      case NodeKind::kFilterBlock: return visit(node->parts[0].get());
      case NodeKind::kGeneration: return;
      case NodeKind::kSetBlock: return store(node->parts[0].get());
      case NodeKind::kSet: visit(node->parts[1].get()); return store(node->parts[0].get());
      case NodeKind::kIf: return visit_if(*node);
      default:
        for (const auto& part : node->parts) visit(part.get());
    }
  }

  void store(const Node* target) {
    if (target->kind == NodeKind::kName) return symbols_->store(target->symbol);
    if (target->kind == NodeKind::kSetAttribute) return symbols_->load(target->symbol);
    for (const auto& part : target->parts) store(part.get());
  }
  void parameters(const Node* target) {
    if (target->kind == NodeKind::kName) return symbols_->parameter(target->symbol);
    for (const auto& part : target->parts) parameters(part.get());
  }

 private:
  template <class Visit>
  Symbols branch(Visit visit_branch) {
    Symbols made = *symbols_;
    Symbols* const before = std::exchange(symbols_, &made);
    visit_branch();
    symbols_ = before;
    return made;
  }

  void visit_if(const Node& node) {
    const auto& parts = node.parts;
    visit(parts[0].get());
    std::vector<Symbols> branches;
    branches.push_back(branch([&] { visit(parts[1].get()); }));
    branches.push_back(branch([&] {  // all conditions but the first, each as an `if` of its own
      for (std::size_t i = 2; i + 1 < parts.size(); i += 2) {
        visit(parts[i].get());
        symbols_->join({branch([&] { visit(parts[i + 1].get()); }), *symbols_, *symbols_});
      }
    }));
    branches.push_back(branch([&] {
      if (parts.size() % 2 == 1) visit(parts.back().get());
    }));
    symbols_->join(branches);
  }

  Symbols* symbols_;
};

class Resolver {
 public:
  void body(Node& node, const Symbols* outer) {
    Symbols symbols{outer, {}, {}};
    Visitor(symbols).visit(&node);
    finish(node, node, symbols);
  }

 private:
  /// Keeps a scope's names at `owner`, and goes into the scopes inside.
  void finish(Node& owner, Node& inside, const Symbols& symbols) {
    owner.scope = symbols.names;
    inner_scopes(inside, symbols);
  }

  void inner_scopes(Node& node, const Symbols& symbols) {
    for (const auto& part : node.parts)
      if (part) scope_in(*part, symbols);
  }

  void scope_in(Node& node, const Symbols& outer) {
    switch (node.kind) {
      case NodeKind::kFor: return loop(node, outer);
      case NodeKind::kMacro: return macro(node, outer);
      case NodeKind::kSetBlock: return with_filter(node, node.parts[1].get(), *node.parts[2], outer);
      case NodeKind::kFilterBlock: return with_filter(node, node.parts[0].get(), *node.parts[1], outer);
      case NodeKind::kGeneration: return body(*node.parts[0], &outer);
      case NodeKind::kBody:
      case NodeKind::kIf: return inner_scopes(node, outer);
      default: return;  // expressions have no scopes
    }
  }

  void loop(Node& node, const Symbols& outer) {
    if (node.parts[2]) {
      Symbols symbols{&outer, {}, {}};
      Visitor visitor(symbols);
      visitor.parameters(node.parts[0].get());
      visitor.visit(node.parts[2].get());
      node.scope = symbols.names;
    }
    Symbols symbols{&outer, {}, {}};
    symbols.parameter(kLoopSymbol);
    Visitor visitor(symbols);
    visitor.parameters(node.parts[0].get());
    visitor.visit(node.parts[3].get());
    finish(*node.parts[3], *node.parts[3], symbols);
    if (node.parts[4]) body(*node.parts[4], &outer);
  }

  void macro(Node& node, const Symbols& outer) {
    Symbols symbols{&outer, {}, {}};
    Visitor visitor(symbols);
    for (const Symbol name : node.parameters) symbols.parameter(name);
    for (const auto& part : node.parts) visitor.visit(part.get());
    finish(node, *node.parts.back(), symbols);
  }

  void with_filter(Node& node, const Node* filter, Node& inside, const Symbols& outer) {
    Symbols symbols{&outer, {}, {}};
    Visitor visitor(symbols);
    visitor.visit(filter);
    visitor.visit(&inside);
    finish(node, inside, symbols);
  }
};

}  // namespace

void resolve_names(Node& body) { Resolver().body(body, nullptr); }

}  // namespace crumb::text::chat
