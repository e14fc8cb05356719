// SPDX-License-Identifier: Apache-2.0
#include "replay/decision_difference.h"

#include <fmt/format.h>
#include <google/protobuf/util/message_differencer.h>

#include <string_view>
#include <vector>

#include "base/parse.h"
#include "base/printable.h"
#include "messages/convert.h"
#include "replay/decision_text.h"

namespace forestall::replay {
namespace {

// `forestall replay -o json` prints both decisions in full.
constexpr std::size_t kFieldsShown = 8;
constexpr std::size_t kFieldWidth = 100;

std::vector<CgroupId> victims(const Decision& decision) {
  std::vector<CgroupId> ids;
  for (const Eviction& eviction : decision.evictions) {
    ids.push_back(decision.considered[eviction.candidate].sample.workload.cgroup);
  }
  return ids;
}

// "    evidence[0].limit: 50331648 -> 67108864". A candidate that only one side has is a line of
// many fields.
std::string field_text(std::string_view line) {
  constexpr std::string_view kModified = "modified: ";
  if (line.starts_with(kModified)) line.remove_prefix(kModified.size());
  std::string text = printable(std::string(line.substr(0, line.find('{'))));
  while (text.ends_with(' ') || text.ends_with(':')) text.pop_back();
  if (text.size() > kFieldWidth) text = text.substr(0, kFieldWidth) + "...";
  return "    " + text + "\n";
}

std::string fields_text(std::string_view differences) {
  std::string out;
  std::size_t count = 0;
  while (!differences.empty()) {
    const std::string_view line = next_field(differences, '\n');
    if (!line.empty() && ++count <= kFieldsShown) out += field_text(line);
  }
  if (count > kFieldsShown) {
    out += fmt::format("    and {} more fields; `forestall replay -o json` prints all\n",
                       count - kFieldsShown);
  }
  return out;
}

}  // namespace

bool acts_otherwise(const Decision& a, const Decision& b) {
  return a.action != b.action || victims(a) != victims(b);
}

std::string difference_text(const Decision& before, const Decision& after, MonotonicTime at,
                            const Sides& sides) {
  std::string fields;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&fields);
  const bool equal = differencer.Compare(messages::to_proto(before), messages::to_proto(after));
  if (equal) fields = "equal as messages: they differ in what the observation holds";
  return fmt::format("  {}: {}\n  {}: {}\n{}", sides.before, in_short(before, at), sides.after,
                     in_short(after, at), fields_text(fields));
}

}  // namespace forestall::replay
