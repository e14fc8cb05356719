// SPDX-License-Identifier: Apache-2.0
#include "intake/earlyoom_input.h"

#include <fmt/format.h>
#include <regex.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/parse.h"
#include "intake/json_members.h"
#include "text/json_tree.h"

namespace forestall::intake {
namespace {

using rulesets::EarlyoomMemory;
using rulesets::EarlyoomProcess;
using rulesets::EarlyoomVersion;
using text::JsonMember;
using text::JsonNode;

// Amounts that doubles represent exactly; sums of a few do not overflow.
constexpr std::uint64_t kKibMax = 1ULL << 50;

class MeminfoReader {
 public:
  MeminfoReader(std::string_view text, const std::string& file, text::Findings& findings)
      : file_(file), findings_(findings) {
    std::uint32_t number = 0;
    while (!text.empty()) {
      ++number;
      line(next_field(text, '\n'), number);
    }
  }

  EarlyoomMemory read(EarlyoomVersion version) {
    EarlyoomMemory memory;
    memory.total = required("MemTotal");
    memory.swap_total = required("SwapTotal");
    memory.swap_free = required("SwapFree");
    if (version != EarlyoomVersion::v1_7) memory.anon_pages = required("AnonPages");
    const auto available = values_.find("MemAvailable");
    memory.available = available != values_.end() ? available->second : estimate();
    if (findings_.errors.empty() && rulesets::earlyoom_memory_base(memory, version) <= 0) {
      findings_.errors.push_back({{file_, std::nullopt},
                                  version == EarlyoomVersion::v1_7
                                      ? "MemTotal is 0"
                                      : "MemAvailable and AnonPages are 0"});
    }
    return memory;
  }

 private:
  // "MemTotal:       16384000 kB"
  void line(std::string_view text, std::uint32_t number) {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return;
    const std::string key(trim(text.substr(0, colon)));
    std::string_view rest = text.substr(colon + 1);
    const std::string_view digits = next_word(rest);
    const std::string_view unit = next_word(rest);
    const auto value = parse_u64(digits);
    if (value && *value <= kKibMax && (unit.empty() || unit == "kB")) {
      values_.emplace(key, static_cast<std::int64_t>(*value));
      return;
    }
    const auto column = static_cast<std::uint32_t>(
        (digits.empty() ? text.size() : static_cast<std::size_t>(digits.data() - text.data())) + 1);
    malformed_.emplace(key, text::Position{number, column});
  }

  std::int64_t required(const std::string& key) {
    const auto found = values_.find(key);
    if (found != values_.end()) return found->second;
    const auto place = malformed_.find(key);
    if (place != malformed_.end()) {
      findings_.errors.push_back({{file_, place->second}, key + " must be a number of kB"});
    } else {
      findings_.errors.push_back({{file_, std::nullopt}, key + " is missing"});
    }
    return 0;
  }

  // meminfo.c available_guesstimate(), for kernels before 3.14.
  std::int64_t estimate() {
    findings_.warnings.push_back(
        {{file_, std::nullopt}, "MemAvailable is missing; estimated from free memory and caches"});
    return required("MemFree") + required("Cached") + required("Buffers") - required("Shmem");
  }

  const std::string& file_;
  text::Findings& findings_;
  std::map<std::string, std::int64_t> values_;  // the first of equal keys
  std::map<std::string, text::Position> malformed_;
};

struct ProcessField {
  std::string_view key;
  std::int64_t EarlyoomProcess::*field;
  std::int64_t least;
};

constexpr std::array<ProcessField, 6> kProcessFields{
    {{"pid", &EarlyoomProcess::pid, 1},
     {"ppid", &EarlyoomProcess::ppid, 0},
     {"uid", &EarlyoomProcess::uid, 0},
     {"oom_score", &EarlyoomProcess::oom_score, -100'000},
     {"oom_score_adj", &EarlyoomProcess::oom_score_adj, -1000},
     {"rss_kib", &EarlyoomProcess::rss_kib, 0}}};

const std::vector<std::string> kProcessKeys{
    "pid", "ppid", "uid", "comm", "oom_score", "oom_score_adj", "rss_kib", "threads", "state"};

std::optional<EarlyoomProcess> read_process(const JsonNode& node, JsonProblems& problems) {
  if (node.kind != JsonNode::Kind::object) {
    problems.expected(node, "an object");
    return std::nullopt;
  }
  const std::size_t before = problems.count();
  EarlyoomProcess process;
  for (const ProcessField& each : kProcessFields) {
    if (node.find(each.key) == nullptr) {
      problems.error(node.at, fmt::format("'{}' is missing", each.key));
    }
  }
  if (node.find("comm") == nullptr) problems.error(node.at, "'comm' is missing");
  for (const JsonMember& member : node.members) {
    const auto field =
        std::find_if(kProcessFields.begin(), kProcessFields.end(),
                     [&](const ProcessField& each) { return each.key == member.key; });
    if (field != kProcessFields.end()) {
      const auto number = json_integer(member, problems);
      if (!number) continue;
      if (*number < field->least || *number > static_cast<std::int64_t>(kKibMax)) {
        problems.expected(member.value, member.key, fmt::format("a number from {}", field->least));
      }
      process.*(field->field) = *number;
    } else if (member.key == "comm") {
      process.comm = json_string(member, problems).value_or("");
    } else if (member.key == "threads") {
      (void)json_integer(member, problems);
    } else if (member.key == "state") {
      (void)json_string(member, problems);
    } else {
      problems.unknown_key(member, kProcessKeys);
    }
  }
  if (problems.count() != before) return std::nullopt;
  return process;
}

struct FreeRegex {
  void operator()(regex_t* regex) const {
    ::regfree(regex);
    delete regex;
  }
};
using Regex = std::unique_ptr<regex_t, FreeRegex>;

Regex compile(const char* option, const std::string& expression, text::Findings& findings) {
  auto regex = std::make_unique<regex_t>();
  const int failed = ::regcomp(regex.get(), expression.c_str(), REG_EXTENDED | REG_NOSUB);
  if (failed == 0) return Regex(regex.release());
  std::array<char, 128> why{};
  ::regerror(failed, regex.get(), why.data(), why.size());
  findings.errors.push_back(
      {{option, std::nullopt},
       fmt::format("cannot compile the regular expression '{}': {}", expression, why.data())});
  return nullptr;
}

}  // namespace

EarlyoomMemory read_earlyoom_meminfo(std::string_view text, const std::string& file,
                                     EarlyoomVersion version, text::Findings& findings) {
  return MeminfoReader(text, file, findings).read(version);
}

std::vector<EarlyoomProcess> read_earlyoom_processes(std::string_view text, const std::string& file,
                                                     text::Findings& findings) {
  std::vector<text::Diagnostic> diagnostics;
  const auto root = text::parse_json(text, {}, 1, diagnostics);
  findings.add_errors(file, diagnostics);
  if (!root) return {};
  JsonProblems problems(file, findings);
  if (root->kind != JsonNode::Kind::list) {
    problems.expected(*root, "a list of processes");
    return {};
  }
  std::vector<EarlyoomProcess> processes;
  for (const JsonNode& each : root->items) {
    if (auto process = read_process(each, problems)) processes.push_back(std::move(*process));
  }
  return processes;
}

void match_earlyoom_processes(const rulesets::EarlyoomOptions& options,
                              std::vector<EarlyoomProcess>& processes, text::Findings& findings) {
  struct Match {
    const char* option;
    const std::optional<std::string>& expression;
    bool EarlyoomProcess::*field;
  };
  const std::array<Match, 3> matches{{{"--prefer", options.prefer, &EarlyoomProcess::preferred},
                                      {"--avoid", options.avoid, &EarlyoomProcess::avoided},
                                      {"--ignore", options.ignore, &EarlyoomProcess::ignored}}};
  for (const Match& each : matches) {
    if (!each.expression) continue;
    const Regex regex = compile(each.option, *each.expression, findings);
    if (regex == nullptr) continue;
    for (EarlyoomProcess& process : processes) {
      process.*(each.field) = ::regexec(regex.get(), process.comm.c_str(), 0, nullptr, 0) == 0;
    }
  }
}

}  // namespace forestall::intake
