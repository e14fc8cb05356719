// SPDX-License-Identifier: Apache-2.0
#include "intake/oomd_conf.h"

#include <fmt/format.h>

#include <vector>

#include "base/parse.h"
#include "intake/systemd_values.h"
#include "messages/yaml_message.h"

namespace forestall::intake {
namespace {

constexpr std::string_view kSection = "OOM";
constexpr int kLenientSince = 253;  // about a duration that is too short
constexpr int kFiniteSince = 257;   // of the duration
const std::vector<std::string> kOomdKeys{"SwapUsedLimit", "DefaultMemoryPressureLimit",
                                         "DefaultMemoryPressureDurationSec"};

// A logical line: a backslash at the end of a line continues it on the next one.
struct ConfLine {
  std::string text;
  std::uint32_t number = 0;  // of its first line
};

bool is_comment(std::string_view line) {
  return line.starts_with('#') || line.starts_with(';');
}

std::vector<ConfLine> lines_of(std::string_view text) {
  std::vector<ConfLine> lines;
  std::uint32_t number = 0;
  bool continues = false;
  while (!text.empty()) {
    ++number;
    std::string_view line = next_field(text, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (is_comment(trim(line))) continue;  // also between continued lines
    const std::size_t last = line.find_last_not_of('\\');
    const std::size_t slashes = line.size() - (last == std::string_view::npos ? 0 : last + 1);
    const bool next_continues = slashes % 2 == 1;
    if (next_continues) line.remove_suffix(1);
    if (continues) {
      lines.back().text += " ";
      lines.back().text += line;
    } else {
      lines.push_back({std::string(line), number});
    }
    continues = next_continues;
  }
  return lines;
}

class OomdConfReader {
 public:
  OomdConfReader(const std::string& file, int systemd_version, text::Findings& findings,
                 const rulesets::OomdConf& before)
      : file_(file), systemd_version_(systemd_version), findings_(findings), conf_(before) {}

  rulesets::OomdConf read(std::string_view text) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    for (const ConfLine& each : lines_of(text)) line(each);
    // What counts is the last assignment.
    if (too_short_) findings_.errors.push_back(*std::move(too_short_));
    return conf_;
  }

 private:
  void warn(text::Position at, std::string message) {
    findings_.warnings.push_back({{file_, at}, std::move(message)});
  }
  void error(text::Position at, std::string message) {
    findings_.errors.push_back({{file_, at}, std::move(message)});
  }

  void line(const ConfLine& line) {
    const std::string_view text = trim(line.text);
    if (text.empty()) return;
    const auto column = static_cast<std::uint32_t>(line.text.find(text) + 1);
    const text::Position at{line.number, column};
    if (text.starts_with('[')) return section(text, at);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) return warn(at, "no '=' in the line; ignored");
    const std::string_view key = trim(text.substr(0, equals));
    if (!section_) return warn(at, "assignment outside of a section; ignored");
    if (*section_ != kSection) return;
    const std::string_view value = trim(text.substr(equals + 1));
    const std::size_t offset =
        value.empty() ? equals + 1 : static_cast<std::size_t>(value.data() - text.data());
    assign(std::string(key), value, at, {at.line, at.column + static_cast<std::uint32_t>(offset)});
  }

  void section(std::string_view text, text::Position at) {
    if (!text.ends_with(']')) {
      return error(at, fmt::format("'{}' is no section header, such as [OOM]", text));
    }
    section_ = std::string(text.substr(1, text.size() - 2));
    if (*section_ != kSection && !section_->starts_with("X-")) {
      warn(at, fmt::format("unknown section '{}'; ignored", *section_));
    }
  }

  void assign(const std::string& key, std::string_view value, text::Position key_at,
              text::Position at) {
    if (key == "SwapUsedLimit") return limit(key, value, at, conf_.swap_used_limit);
    if (key == "DefaultMemoryPressureLimit") return limit(key, value, at, conf_.pressure_limit);
    if (key == "DefaultMemoryPressureDurationSec") return duration(key, value, at);
    const auto near = messages::nearest_word(key, kOomdKeys);
    warn(key_at, fmt::format("unknown key '{}'; ignored{}", key,
                             near ? "; did you mean '" + *near + "'?" : ""));
  }

  void limit(const std::string& key, std::string_view value, text::Position at, std::int64_t& out) {
    if (const auto parsed = parse_permyriad(value)) {
      out = *parsed;
    } else {
      warn(at, fmt::format("'{}' must be a percentage from 0% to 100%, found '{}'; ignored", key,
                           value));
    }
  }

  void duration(const std::string& key, std::string_view value, text::Position at) {
    using namespace std::chrono_literals;
    const auto parsed = parse_systemd_span(value);
    if (!parsed) {
      return warn(at, fmt::format("'{}' must be a time span, found '{}'; ignored", key, value));
    }
    too_short_.reset();
    if (*parsed == 0us) {
      conf_.pressure_duration = rulesets::OomdConf().pressure_duration;
    } else if (*parsed == kInfiniteSpan && systemd_version_ >= kFiniteSince) {
      warn(at, fmt::format("'{}' must be finite, found '{}'; ignored", key, value));
    } else if (*parsed >= 1s) {
      conf_.pressure_duration = *parsed;
    } else if (systemd_version_ < kLenientSince) {
      too_short_ = text::Finding{
          {file_, at},
          fmt::format(
              "'{}' must be at least 1s, found '{}'; systemd-oomd 252 does not start with it", key,
              value)};
    } else {
      warn(at, fmt::format("'{}' must be at least 1s, found '{}'; ignored", key, value));
    }
  }

  const std::string& file_;
  const int systemd_version_;
  text::Findings& findings_;
  rulesets::OomdConf conf_;
  std::optional<std::string> section_;
  std::optional<text::Finding> too_short_;  // the duration, for systemd 252
};

}  // namespace

rulesets::OomdConf read_oomd_conf(std::string_view text, const std::string& file,
                                  int systemd_version, text::Findings& findings,
                                  const rulesets::OomdConf& before) {
  return OomdConfReader(file, systemd_version, findings, before).read(text);
}

}  // namespace forestall::intake
