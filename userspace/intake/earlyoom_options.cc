// SPDX-License-Identifier: Apache-2.0
#include "intake/earlyoom_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

namespace forestall::intake {
namespace {

using rulesets::EarlyoomOptions;
using rulesets::EarlyoomThresholds;
using rulesets::EarlyoomVersion;

constexpr std::size_t kArgumentMax = 255;  // of "TERM,KILL"
constexpr std::int64_t kMemoryPercentMax = 99;
constexpr std::int64_t kSwapPercentMax = 100;

constexpr std::array<std::string_view, 5> kSince18{"--ignore", "--ignore-root-user",
                                                   "--sort-by-rss", "--syslog", "--debug"};
constexpr std::string_view kSince19 = "-P";

struct TermKill {
  double term = 0;
  double kill = 0;
};

class EarlyoomOptionReader {
 public:
  EarlyoomOptionReader(EarlyoomVersion version, const EarlyoomTotals& totals,
                       text::Findings& findings)
      : totals_(totals), findings_(findings) {
    options_.version = version;
  }

  EarlyoomOptions read(const std::vector<GivenOption>& given) {
    for (const GivenOption& each : given) option(each);
    merge();
    return options_;
  }

 private:
  void error(const std::string& option, std::string message) {
    findings_.errors.push_back({{option, std::nullopt}, std::move(message)});
  }
  void warn(const std::string& option, std::string message) {
    findings_.warnings.push_back({{option, std::nullopt}, std::move(message)});
  }

  void option(const GivenOption& given) {
    if (options_.version == EarlyoomVersion::v1_7 && !known_to_1_7(given.name)) {
      error(given.name, "earlyoom 1.7 does not have this option; remove it or use --compat 1.9");
      return;
    }
    if (level(given) || flag(given.name)) return;
    if (given.name == "-r") return interval(given);
    if (given.name == "-N") return program(given, options_.program_after);
    if (given.name == "-P") return program(given, options_.program_before);
    if (given.name == "--prefer") options_.prefer = given.value;
    if (given.name == "--avoid") options_.avoid = given.value;
    if (given.name == "--ignore") options_.ignore = given.value;
  }

  static bool known_to_1_7(std::string_view name) {
    return name != kSince19 && std::find(kSince18.begin(), kSince18.end(), name) == kSince18.end();
  }

  bool level(const GivenOption& given) {
    // The limit is what earlyoom computes from integers: a hundred 99ths of the total.
    const auto size_limit = [](std::int64_t total) { return total * 100 / 99; };
    if (given.name == "-m") return take(given, kMemoryPercentMax, memory_percent_);
    if (given.name == "-s") return take(given, kSwapPercentMax, swap_percent_);
    if (given.name == "-M") return take(given, size_limit(totals_.memory), memory_size_);
    if (given.name == "-S") return take(given, size_limit(totals_.swap), swap_size_);
    return false;
  }

  bool flag(std::string_view name) {
    const std::pair<std::string_view, bool*> flags[] = {
        {"-g", &options_.process_group},
        {"-n", &options_.notify_dbus},
        {"-p", &options_.raise_priority},
        {"-d", &options_.debug},
        {"--debug", &options_.debug},
        {"--dryrun", &options_.dry_run},
        {"--syslog", &options_.syslog},
        {"--ignore-root-user", &options_.ignore_root_user},
        {"--sort-by-rss", &options_.sort_by_rss}};
    for (const auto& [known, value] : flags) {
      if (name != known) continue;
      *value = true;
      return true;
    }
    if (name != "-k" && name != "-i") return false;
    warn(std::string(name), "accepted and ignored, as by earlyoom");
    return true;
  }

  // Always true: the option is a level.
  bool take(const GivenOption& given, std::int64_t limit, std::optional<TermKill>& out) {
    std::string_view rest = given.value;
    if (rest.size() > kArgumentMax) {
      error(given.name, fmt::format("argument too long ({} bytes)", rest.size()));
      return true;
    }
    const std::size_t comma = rest.find(',');
    const auto term = number(given.name, std::string(rest.substr(0, comma)), limit);
    std::optional<double> kill = term ? std::optional(*term / 2) : std::nullopt;
    if (term && comma != std::string_view::npos) {
      kill = number(given.name, std::string(rest.substr(comma + 1)), limit);
    }
    if (!term || !kill) return true;
    TermKill level{*term, *kill};
    if (level.term < level.kill) {
      warn(given.name, fmt::format("the level of SIGTERM, {}, is below that of SIGKILL, {}; both "
                                   "become {}",
                                   level.term, level.kill, level.kill));
      level.term = level.kill;
    }
    if (level.term == 0 && level.kill == 0) {
      error(given.name, "the levels of SIGTERM and SIGKILL are both 0");
      return true;
    }
    out = level;
    return true;
  }

  // strtod() reads exponents, hexadecimal numbers and leading blanks; an empty text is 0.
  std::optional<double> number(const std::string& option, const std::string& text,
                               std::int64_t limit) {
    errno = 0;
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const int failure = errno;
    if (end != text.c_str() + text.size()) {
      error(option, fmt::format("'{}': not a number up to its end", text));
    } else if (std::isnan(value)) {
      error(option, fmt::format("'{}': not a level (earlyoom accepts it and never acts)", text));
    } else if (failure != 0) {
      error(option, fmt::format("'{}': out of the range of a number", text));
    } else if (value > static_cast<double>(limit)) {
      error(option, fmt::format("'{}': exceeds the limit {}", text, limit));
    } else if (value < 0) {
      error(option, fmt::format("'{}': below 0", text));
    } else {
      return value + 0.0;  // of -0 too
    }
    return std::nullopt;
  }

  void interval(const GivenOption& given) {
    char* end = nullptr;
    const float seconds = std::strtof(given.value.c_str(), &end);
    if (seconds < 0) return error(given.name, "invalid interval '" + given.value + "'");
    if (end == given.value.c_str()) {
      warn(given.name, "'" + given.value + "' is not a number: memory reports are off");
    } else if (*end != '\0' || std::isnan(seconds)) {
      return error(given.name,
                   "'" + given.value + "': not a number up to its end (earlyoom ignores the rest)");
    }
    const float ms = seconds * 1000;
    options_.report_interval_ms = ms < static_cast<float>(std::numeric_limits<int>::max())
                                      ? static_cast<int>(ms)
                                      : std::numeric_limits<int>::max();
  }

  void program(const GivenOption& given, std::optional<std::string>& out) {
    out.reset();
    if (given.value.starts_with('/')) {
      out = given.value;
    } else {
      warn(given.name, "'" + given.value + "' is not an absolute path: the option is off");
    }
  }

  // A size becomes a percentage. With both, the lower value of each counts.
  void merge() {
    EarlyoomThresholds& levels = options_.thresholds;
    merge_one(memory_percent_, memory_size_, totals_.memory, levels.mem_term, levels.mem_kill);
    merge_one(swap_percent_, swap_size_, totals_.swap, levels.swap_term, levels.swap_kill);
  }

  static void merge_one(const std::optional<TermKill>& percent, const std::optional<TermKill>& size,
                        std::int64_t total, double& term, double& kill) {
    if (percent) {
      term = percent->term;
      kill = percent->kill;
    }
    if (!size) return;
    const double size_term = 100 * size->term / static_cast<double>(total);
    const double size_kill = 100 * size->kill / static_cast<double>(total);
    term = percent ? std::min(term, size_term) : size_term;
    kill = percent ? std::min(kill, size_kill) : size_kill;
  }

  const EarlyoomTotals& totals_;
  text::Findings& findings_;
  EarlyoomOptions options_;
  std::optional<TermKill> memory_percent_;
  std::optional<TermKill> swap_percent_;
  std::optional<TermKill> memory_size_;
  std::optional<TermKill> swap_size_;
};

}  // namespace

EarlyoomOptions read_earlyoom_options(EarlyoomVersion version,
                                      const std::vector<GivenOption>& given,
                                      const EarlyoomTotals& totals, text::Findings& findings) {
  return EarlyoomOptionReader(version, totals, findings).read(given);
}

}  // namespace forestall::intake
