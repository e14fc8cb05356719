// SPDX-License-Identifier: Apache-2.0
#include "intake/senpai_config.h"

#include <fmt/format.h>

#include <cctype>
#include <vector>

#include "intake/json_members.h"

namespace forestall::intake {
namespace {

using rulesets::StandaloneSenpai;
using text::JsonMember;

// Sizes at which doubles are exact, and their products far from the limits of 64 bits.
constexpr std::int64_t kNumberMax = std::int64_t{1} << 53;

const std::vector<std::string> kSenpaiKeys{"cgroup",      "min-size",    "max-size",
                                           "interval",    "pressure",    "max-probe",
                                           "max-backoff", "coeff-probe", "coeff-backoff"};

// "minSize" and "min_size" as "min-size".
std::string dashed(const std::string& key) {
  std::string out;
  for (const char c : key) {
    if (std::isupper(static_cast<unsigned char>(c)) != 0) {
      out += '-';
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else {
      out += c == '_' ? '-' : c;
    }
  }
  return out;
}

struct WholeField {
  std::string_view key;
  std::int64_t StandaloneSenpai::*field;
  std::int64_t least;
};

constexpr WholeField kWholeFields[] = {{"min-size", &StandaloneSenpai::min_size, 0},
                                       {"max-size", &StandaloneSenpai::max_size, 0},
                                       {"interval", &StandaloneSenpai::interval, 1},
                                       {"pressure", &StandaloneSenpai::pressure, 1}};

struct RealField {
  std::string_view key;
  double StandaloneSenpai::*field;
};

constexpr RealField kRealFields[] = {{"max-probe", &StandaloneSenpai::max_probe},
                                     {"max-backoff", &StandaloneSenpai::max_backoff},
                                     {"coeff-probe", &StandaloneSenpai::coeff_probe},
                                     {"coeff-backoff", &StandaloneSenpai::coeff_backoff}};

// False if the key is unknown.
bool read_senpai_member(const JsonMember& member, StandaloneSenpai& out, JsonProblems& problems) {
  const std::string key = dashed(member.key);
  if (key == "cgroup") {
    const auto path = json_string(member, problems);
    if (!path) return true;
    out.cgroup = path->starts_with('/') ? *path : "/" + *path;
    return true;
  }
  for (const WholeField& field : kWholeFields) {
    if (key != field.key) continue;
    const auto number = json_integer(member, problems);
    if (!number) return true;
    if (*number < field.least || *number > kNumberMax) {
      problems.expected(member.value, member.key,
                        fmt::format("a number from {} to 2^53", field.least));
    }
    out.*field.field = *number;
    return true;
  }
  for (const RealField& field : kRealFields) {
    if (key != field.key) continue;
    const auto number = json_real(member, problems);
    if (!number) return true;
    if (!(*number > 0)) problems.expected(member.value, member.key, "a number above 0");
    out.*field.field = *number;
    return true;
  }
  return false;
}

}  // namespace

std::optional<StandaloneSenpai> parse_senpai_config(const std::string& file, std::string_view text,
                                                    text::Findings& findings) {
  std::vector<text::Diagnostic> mistakes;
  const auto root = text::parse_json(text, {}, 1, mistakes);
  findings.add_errors(file, mistakes);
  if (!root) return std::nullopt;
  JsonProblems problems(file, findings);
  const std::size_t before = problems.count();
  StandaloneSenpai out;
  if (root->kind != text::JsonNode::Kind::object) problems.expected(*root, "an object");
  for (const JsonMember& member : root->members) {
    if (!read_senpai_member(member, out, problems)) problems.unknown_key(member, kSenpaiKeys);
  }
  if (problems.count() == before && out.cgroup.empty()) {
    problems.error(root->at, "'cgroup' is missing");
  }
  if (problems.count() > before) return std::nullopt;
  return out;
}

}  // namespace forestall::intake
