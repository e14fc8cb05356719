// SPDX-License-Identifier: Apache-2.0
#include "text/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/quotes.h"
#include "text/utf8.h"

namespace forestall::text {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// The lines of the text, to convert yaml-cpp's byte columns to character columns.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {
    starts_.push_back(0);
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') starts_.push_back(i + 1);
    }
  }

  [[nodiscard]] std::size_t offset(const YAML::Mark& mark) const {
    if (mark.line < 0 || mark.column < 0) return 0;
    const auto line = std::min(static_cast<std::size_t>(mark.line), starts_.size() - 1);
    return std::min(starts_[line] + static_cast<std::size_t>(mark.column), text_.size());
  }

  // Continues from the previous position if possible, because values are in the order of the text
  // and all of them may be on one line.
  [[nodiscard]] Position position(std::size_t offset) {
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), offset);
    const std::size_t start = *(next - 1);
    if (counted_to_ < start || counted_to_ > offset) {
      counted_to_ = start;
      column_ = 1;
    }
    for (; counted_to_ < offset; ++counted_to_) {
      // Bytes of the form 10xxxxxx continue a character.
      if ((static_cast<unsigned char>(text_[counted_to_]) & 0xc0) != 0x80) ++column_;
    }
    return {static_cast<std::uint32_t>(next - starts_.begin()), column_};
  }

  [[nodiscard]] std::string_view text() const { return text_; }

 private:
  std::string_view text_;
  std::vector<std::size_t> starts_;
  std::size_t counted_to_ = 0;  // column_ is the column of this offset
  std::uint32_t column_ = 1;
};

// Checks for input that yaml-cpp misinterprets: it treats byte 4 as the end of the file, drops
// invalid UTF-8 and guesses other encodings.
std::optional<Diagnostic> find_unreadable(std::string_view text, Lines& lines) {
  if (text.size() > kYamlBytesMax) {
    return Diagnostic{{}, "the file is larger than 1 MiB"};
  }
  if (text.starts_with("\xef\xbb\xbf")) {
    return Diagnostic{{}, "the file begins with a byte order mark; save it as plain UTF-8"};
  }
  if (const auto bad = find_invalid_utf8(text)) {
    return Diagnostic{lines.position(*bad), "not UTF-8"};
  }
  bool indentation = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\t' && indentation) {
      return Diagnostic{lines.position(i), "tab in the indentation; YAML indents with spaces only"};
    }
    const bool line_end = c == '\n' || (c == '\r' && i + 1 < text.size() && text[i + 1] == '\n');
    if (static_cast<unsigned char>(c) < 0x20 && c != '\t' && !line_end) {
      return Diagnostic{lines.position(i), "control character"};
    }
    indentation = c == '\n' || (indentation && c == ' ');
  }
  return std::nullopt;
}

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(Lines& lines, std::vector<Diagnostic>& problems, RepeatedKeys repeated)
      : lines_(lines), problems_(problems), repeated_(repeated) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ == 1) stop(at(mark), "a second document; only one is read");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (stopped_) return;
    YamlNode node;
    node.at = null_position(mark);
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (stopped_) return;
    const Position position = at(mark);
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) return stop(position, "the alias is part of the value it names");
    const Anchored& named = found->second;
    if (expects_key() && named.node.kind != YamlNode::Kind::scalar) {
      return stop(position, kKeyKind);
    }
    if (open_.size() + named.size.depth > kYamlDepthMax) return stop(position, depth_problem());
    if (!count_copy(named.size, position)) return;
    place(named.node, named.size);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (stopped_) return;
    YamlNode node;
    node.kind = YamlNode::Kind::scalar;
    node.at = at(mark);
    node.text = value;
    node.quoted = tag == "!";
    if (unclosed_quote(lines_.offset(mark))) {
      return stop(node.at, "the quote opened here is never closed");
    }
    refuse_tag(node.at, tag);
    add(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::list, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

  [[nodiscard]] bool stopped() const { return stopped_; }
  std::optional<YamlNode> take() && { return stopped_ ? std::nullopt : std::move(root_); }

 private:
  static constexpr const char* kKeyKind = "a key must be a plain word, not a map or list";

  // What a node and all in it take.
  struct NodeSize {
    std::size_t nodes = 0;
    std::size_t bytes = 0;
    std::size_t depth = 0;

    void add(const NodeSize& child) {
      nodes += child.nodes;
      bytes += child.bytes;
      depth = std::max(depth, child.depth + 1);
    }
  };
  struct Anchored {
    YamlNode node;
    NodeSize size;
  };

  // An open map or list. Stored here instead of in its parent, whose vector may grow.
  struct Open {
    YamlNode node;
    YAML::anchor_t anchor = 0;
    NodeSize size;
    bool merging = false;              // `entry` is a merge key
    std::optional<Position> merge_at;  // of the first one
    std::vector<YamlEntry> merged;     // in the order of the text
    std::optional<YamlEntry> entry;    // for a map: the key whose value follows
    // For a map: the entry of each key. Comparing with every entry would take quadratic time, on
    // the thread that evaluates pressure.
    std::unordered_map<std::string, std::size_t> entry_of;
  };

  Position at(const YAML::Mark& mark) const { return lines_.position(lines_.offset(mark)); }

  // yaml-cpp gives a missing value the position of the next token. Points to the previous token
  // instead: the key, or the dash of a list.
  Position null_position(const YAML::Mark& mark) const {
    std::size_t offset = lines_.offset(mark);
    const std::string_view rest = lines_.text().substr(offset);
    if (rest.starts_with('~') || rest.starts_with("null") || rest.starts_with("Null") ||
        rest.starts_with("NULL")) {
      return lines_.position(offset);
    }
    if (!open_.empty() && open_.back().entry) return open_.back().entry->at;
    while (offset > 0 && is_blank(lines_.text()[offset - 1])) --offset;
    return lines_.position(offset > 0 ? offset - 1 : 0);
  }

  // yaml-cpp treats the end of the file as the missing quote, but a truncated file must be refused.
  bool unclosed_quote(std::size_t offset) const {
    const std::string_view text = lines_.text();
    if (offset >= text.size()) return false;
    const char quote = text[offset];
    if (quote != '\'' && quote != '"') return false;
    for (std::size_t i = offset + 1; i < text.size(); ++i) {
      if (quote == '"' && text[i] == '\\') {
        ++i;
      } else if (text[i] == quote) {
        if (quote == '"' || i + 1 >= text.size() || text[i + 1] != quote) return false;
        ++i;  // '' inside single quotes is one quote
      }
    }
    return true;
  }

  static std::string depth_problem() {
    return "nested more than " + std::to_string(kYamlDepthMax) + " deep";
  }

  void refuse_tag(Position position, const std::string& tag) {
    if (tag != "?" && tag != "!" && !tag.empty()) {
      problems_.push_back(
          {position, "tags (" + tag + ") are not supported; write the plain value"});
    }
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    if (stopped_) return;
    const Position position = at(mark);
    if (expects_key()) return stop(position, kKeyKind);
    if (open_.size() == kYamlDepthMax) return stop(position, depth_problem());
    refuse_tag(position, tag);
    Open opened;
    opened.anchor = anchor;
    opened.size = {.nodes = 1, .bytes = 0, .depth = 1};
    opened.node.kind = kind;
    opened.node.at = position;
    open_.push_back(std::move(opened));
  }

  void close() {
    if (stopped_) return;
    Open closed = std::move(open_.back());
    open_.pop_back();
    for (YamlEntry& each : closed.merged) {
      const auto [known, is_new] = closed.entry_of.try_emplace(each.key, 0);
      if (is_new) closed.node.entries.push_back(std::move(each));
    }
    finish(std::move(closed.node), closed.size, closed.anchor);
  }

  [[nodiscard]] bool expects_key() const {
    return !open_.empty() && open_.back().node.kind == YamlNode::Kind::map && !open_.back().entry;
  }

  // A scalar, or nothing.
  void add(YamlNode node, YAML::anchor_t anchor) {
    const NodeSize size{.nodes = 1, .bytes = node.text.size(), .depth = 0};
    finish(std::move(node), size, anchor);
  }

  // A node that the text has here.
  void finish(YamlNode node, const NodeSize& size, YAML::anchor_t anchor) {
    if (++nodes_ > kYamlNodesMax) return stop(node.at, nodes_problem());
    if (anchor != 0) {
      if (!count_copy(size, node.at)) return;
      anchors_.insert_or_assign(anchor, Anchored{node, size});
    }
    place(std::move(node), size);
  }

  static std::string nodes_problem() {
    return "more than " + std::to_string(kYamlNodesMax) + " values";
  }

  bool count_copy(const NodeSize& size, Position position) {
    nodes_ += size.nodes;
    copied_bytes_ += size.bytes;
    if (nodes_ <= kYamlNodesMax && copied_bytes_ <= kYamlCopiedBytesMax) return true;
    stop(position, nodes_ > kYamlNodesMax
                       ? nodes_problem() + ", with copies for anchors and aliases"
                       : "anchors and aliases make more than 8 MiB of copies");
    return false;
  }

  void place(YamlNode node, const NodeSize& size) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    parent.size.add(size);
    if (parent.node.kind == YamlNode::Kind::list) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.entry) {
      if (node.kind == YamlNode::Kind::null) return stop(node.at, "a key is missing here");
      parent.merging = node.text == "<<" && !node.quoted;
      parent.entry = YamlEntry{std::move(node.text), node.at, {}};
    } else {
      parent.entry->value = std::move(node);
      keep(parent);
    }
  }

  void keep(Open& parent) {
    YamlEntry entry = std::move(*parent.entry);
    parent.entry.reset();
    if (parent.merging) return merge(parent, std::move(entry));
    std::vector<YamlEntry>& entries = parent.node.entries;
    const auto [first, is_new] = parent.entry_of.try_emplace(entry.key, entries.size());
    if (is_new) {
      entries.push_back(std::move(entry));
    } else if (repeated_ == RepeatedKeys::replace) {
      entries[first->second] = std::move(entry);
    } else {
      refuse(entry, entries[first->second].at);
    }
  }

  void refuse(const YamlEntry& repetition, Position first) {
    problems_.push_back({repetition.at, "key '" + repetition.key + "' was already given in line " +
                                            std::to_string(first.line)});
  }

  void merge(Open& parent, YamlEntry entry) {
    if (parent.merge_at && repeated_ == RepeatedKeys::refuse)
      return refuse(entry, *parent.merge_at);
    parent.merge_at = entry.at;
    std::vector<YamlNode> maps;
    if (entry.value.kind == YamlNode::Kind::list) {
      maps = std::move(entry.value.items);
    } else {
      maps.push_back(std::move(entry.value));
    }
    for (YamlNode& each : maps) {
      if (each.kind != YamlNode::Kind::map) {
        problems_.push_back(
            {entry.at, "the merge key << takes a map or a list of maps, found " + describe(each)});
        return;
      }
      std::move(each.entries.begin(), each.entries.end(), std::back_inserter(parent.merged));
    }
  }

  void stop(Position position, std::string message) {
    problems_.push_back({position, std::move(message)});
    stopped_ = true;
  }

  Lines& lines_;
  std::vector<Diagnostic>& problems_;
  const RepeatedKeys repeated_;
  std::vector<Open> open_;
  std::optional<YamlNode> root_;
  std::unordered_map<YAML::anchor_t, Anchored> anchors_;  // of complete values
  std::size_t nodes_ = 0;
  std::size_t copied_bytes_ = 0;
  int documents_ = 0;
  bool stopped_ = false;
};

// yaml-cpp's message, with the usual cause of the most frequent mistakes.
std::string explain(const std::string& message) {
  std::string text = "not valid YAML: " + message;
  if (message == YAML::ErrorMsg::MAP_VALUE) {
    text += " (uneven indentation, or a value with ': ' in it that needs quotes?)";
  } else if (message == YAML::ErrorMsg::END_OF_MAP || message == YAML::ErrorMsg::END_OF_SEQ) {
    text += " (uneven indentation?)";
  } else if (message == YAML::ErrorMsg::END_OF_MAP_FLOW) {
    text += " ('}' missing?)";
  } else if (message == YAML::ErrorMsg::END_OF_SEQ_FLOW) {
    text += " (']' missing?)";
  } else if (message == YAML::ErrorMsg::UNKNOWN_TOKEN) {
    text += " (does a value with a special character need quotes?)";
  }
  return text;
}

// JSON may be indented with tabs. Replacing each with a blank keeps all positions. A JSON string
// cannot contain line breaks or tabs, so an indentation is never inside a string.
std::optional<std::string> without_tabs(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || (text[first] != '{' && text[first] != '[')) {
    return std::nullopt;
  }
  std::string blanks(text);
  bool indentation = true;
  for (char& c : blanks) {
    if (c == '\t' && indentation) c = ' ';
    indentation = c == '\n' || (indentation && c == ' ');
  }
  return blanks;
}

// Whether a line of the text is a comment. A file of comments only means the defaults, but an empty
// one can be a failed write.
bool has_comment(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    const std::size_t first = text.find_first_not_of(" \t");
    if (first != std::string_view::npos && text[first] == '#') return true;
    text.remove_prefix(end + 1);
  }
  return false;
}

}  // namespace

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null: return "nothing";
    case YamlNode::Kind::list: return "a list";
    case YamlNode::Kind::map: return "a map";
    case YamlNode::Kind::scalar: break;
  }
  return in_quotes(node.text) + (node.quoted ? " in quotes" : "");
}

std::optional<YamlNode> parse_yaml(std::string_view given, std::vector<Diagnostic>& problems,
                                   RepeatedKeys repeated) {
  const std::optional<std::string> blanks = without_tabs(given);
  const std::string_view text = blanks ? *blanks : given;
  Lines lines(text);
  if (const auto unreadable = find_unreadable(text, lines)) {
    problems.push_back(*unreadable);
    return std::nullopt;
  }
  TreeBuilder builder(lines, problems, repeated);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (!builder.stopped() && parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& exception) {
    if (!builder.stopped()) {
      const std::size_t offset = lines.offset(exception.mark);
      if (exception.msg == YAML::ErrorMsg::UNKNOWN_ANCHOR) {
        problems.push_back(
            {lines.position(offset), "the alias (*name) has no anchor (&name) before it"});
      } else {
        problems.push_back({lines.position(offset), explain(exception.msg)});
      }
    }
    return std::nullopt;
  }
  if (builder.stopped()) return std::nullopt;
  std::optional<YamlNode> root = std::move(builder).take();
  if (!root && has_comment(text)) {
    root.emplace();
    root->kind = YamlNode::Kind::map;
  }
  if (!root || root->kind == YamlNode::Kind::null) {
    problems.push_back({{}, "the file is empty; write {} if that is intended"});
    return std::nullopt;
  }
  return root;
}

}  // namespace forestall::text
