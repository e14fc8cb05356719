// SPDX-License-Identifier: Apache-2.0
#include "descheduler/cluster_snapshot.h"

#include <fmt/format.h>

#include <optional>

#include "base/parse.h"
#include "descheduler/cluster_objects.h"
#include "descheduler/repeated_objects.h"
#include "text/json_stream.h"
#include "text/json_value.h"
#include "text/yaml_json.h"

namespace forestall::descheduler {
namespace {

// Parses one object of the text after the other, without a copy.
class ItemParser {
 public:
  explicit ItemParser(std::string_view whole) : whole_(whole) {}

  // REQUIRES: kJsonPadding readable bytes behind the text. The value is valid until the next call.
  Result<text::JsonValue> parse(std::string_view text) {
    simdjson::dom::element root;
    const auto failed = parser_.parse(text.data(), text.size(), false).get(root);
    if (failed == simdjson::SUCCESS) return text::JsonValue(root);
    const auto explained = text::JsonDocument::parse(text);
    return explained ? error(simdjson::error_message(failed)) : explained.error();
  }

  // The problem, with the position in the whole text. A syntax error begins with LINE:COLUMN.
  Error placed(std::string_view text, const Error& problem) const {
    const auto offset = static_cast<std::size_t>(text.data() - whole_.data());
    text::Position at = text::position_of(whole_, offset);
    std::string_view message = problem.message;
    std::string_view rest = message;
    const auto line = parse_u64(next_field(rest, ':'));
    const auto column = line ? parse_u64(next_field(rest, ':')) : std::nullopt;
    if (column) {
      at.column = (*line == 1 ? at.column - 1 : 0) + static_cast<std::uint32_t>(*column);
      at.line += static_cast<std::uint32_t>(*line) - 1;
      message = trim(rest);
    }
    return error(fmt::format("{}:{}: {}", at.line, at.column, message));
  }

 private:
  const std::string_view whole_;
  simdjson::dom::parser parser_;
};

// "Pod default/web-0", as far as the object has these names.
std::string object_name(std::string_view kind, const text::JsonValue& object) {
  const auto metadata = object.find("metadata");
  if (!metadata || !*metadata) return std::string(kind);
  const auto name = (*metadata)->text("name");
  const auto space = (*metadata)->text("namespace");
  if (!name || name->empty()) return std::string(kind);
  const bool spaced = space && !space->empty();
  return fmt::format("{} {}{}{}", kind, spaced ? *space : "", spaced ? "/" : "", *name);
}

Result<void> add_object(ObjectReader& reader, std::string_view kind,
                        const text::JsonValue& object) {
  const auto added = reader.add(kind, object);
  if (added) return {};
  return error(fmt::format("{}: {}", object_name(kind, object), added.error().message));
}

// The kind of the items of a list: "PodList" gives "Pod", "List" nothing.
std::string item_kind(std::string_view list_kind) {
  constexpr std::string_view kSuffix = "List";
  if (!list_kind.ends_with(kSuffix)) return "";
  return std::string(list_kind.substr(0, list_kind.size() - kSuffix.size()));
}

Result<void> add_items(ObjectReader& reader, ItemParser& parser,
                       const text::JsonDocumentSpan& document, const std::string& list_kind) {
  const std::string implied = item_kind(list_kind);
  reader.expect(document.items.size());
  for (const std::string_view item : document.items) {
    const auto object = parser.parse(item);
    if (!object) return parser.placed(item, object.error());
    auto kind = object->text("kind");
    if (!kind) return parser.placed(item, kind.error());
    if (kind->empty()) kind = implied;
    if (kind->empty()) return parser.placed(item, error("'kind' is missing"));
    const auto added = add_object(reader, *kind, *object);
    if (!added) return parser.placed(item, added.error());
  }
  return {};
}

// An answer of Prometheus, the `data` of one, or the list of its samples.
bool is_prometheus(const text::JsonValue& object) {
  const auto has = [](const text::JsonValue& value, std::string_view key) {
    const auto found = value.find(key);
    return found.ok() && found->has_value();
  };
  const auto data = object.find("data");
  if (!data) return true;  // a list
  if (*data) return (*data)->find("resultType").ok();
  return has(object, "resultType") || (has(object, "status") && has(object, "errorType"));
}

Result<void> add_document(ObjectReader& reader, ItemParser& parser,
                          const text::JsonDocumentSpan& document) {
  if (document.has_items) {
    const auto frame = text::JsonDocument::parse(document.frame);
    if (!frame) return parser.placed(document.text, frame.error());
    const auto kind = frame->root().text("kind");
    if (!kind) return parser.placed(document.text, kind.error());
    return add_items(reader, parser, document, *kind);
  }
  const auto object = parser.parse(document.text);
  if (!object) return parser.placed(document.text, object.error());
  const bool vector = is_prometheus(*object);
  const auto kind = vector ? Result<std::string>("") : object->text("kind");
  if (!kind) return parser.placed(document.text, kind.error());
  if (!vector && kind->empty()) return parser.placed(document.text, error("'kind' is missing"));
  const auto added = vector ? reader.add_prometheus(*object) : add_object(reader, *kind, *object);
  return added ? Result<void>() : parser.placed(document.text, added.error());
}

bool is_json_text(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first == std::string_view::npos || text[first] == '{' || text[first] == '[';
}

}  // namespace

Result<void> ClusterSnapshotReader::add_json(std::string_view text) {
  ObjectReader reader(snapshot_, quantities_);
  ItemParser parser(text);
  for (const text::JsonDocumentSpan& each : TRY(text::split_json(text))) {
    TRY(add_document(reader, parser, each));
  }
  return {};
}

Result<void> ClusterSnapshotReader::add_yaml(std::string_view text) {
  for (const text::YamlDocument& each : text::split_yaml(text)) {
    std::vector<text::Diagnostic> problems;
    auto tree = text::parse_yaml(each.text, problems);
    if (!problems.empty()) {
      return error(fmt::format("{}:{}: {}", problems[0].at.line + each.line - 1,
                               problems[0].at.column, problems[0].message));
    }
    std::string json = text::to_json(*tree);
    json.reserve(json.size() + kJsonPadding);
    // Positions in the JSON are not those in the YAML, so the document is named.
    const auto added = add_json(json);
    if (!added) {
      std::string_view message = added.error().message;
      next_field(message, ':');
      next_field(message, ':');
      return error(fmt::format("{}:1: {}", each.line, trim(message)));
    }
  }
  return {};
}

Result<void> ClusterSnapshotReader::add(std::string text) {
  text.reserve(text.size() + kJsonPadding);
  return add_padded(text);
}

Result<void> ClusterSnapshotReader::add_padded(std::string_view text) {
  return is_json_text(text) ? add_json(text) : add_yaml(text);
}

rebalance::Snapshot ClusterSnapshotReader::take(std::int64_t now_ns, Repeated repeated) {
  snapshot_.taken_ns = now_ns;
  if (repeated == Repeated::last_counts) drop_repeated(snapshot_);
  rebalance::sort(snapshot_);
  return std::move(snapshot_);
}

}  // namespace forestall::descheduler
