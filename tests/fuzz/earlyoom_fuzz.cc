// SPDX-License-Identifier: Apache-2.0
// Any text as options, /proc/meminfo and processes of earlyoom, separated by lines of "--". The
// inputs are refused with messages, or give thresholds, a victim among the processes, and a sleep
// time within its bounds.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/parse.h"
#include "intake/earlyoom_input.h"
#include "intake/earlyoom_options.h"
#include "require.h"

namespace forestall {
namespace {

using test::require;

std::string_view next_part(std::string_view& text) {
  const std::size_t end = text.find("\n--\n");
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 4);
  return part;
}

void run(std::string_view input, rulesets::EarlyoomVersion version) {
  std::string_view options_text = next_part(input);
  const std::string_view meminfo = next_part(input);
  std::vector<intake::GivenOption> given;
  while (!options_text.empty()) {
    const std::string_view name = next_field(options_text, '\n');
    given.push_back({std::string(name), std::string(next_field(options_text, '\n'))});
  }
  text::Findings findings;
  const auto memory = intake::read_earlyoom_meminfo(meminfo, "meminfo", version, findings);
  auto processes = intake::read_earlyoom_processes(input, "processes", findings);
  if (!findings.errors.empty()) return;
  const auto options =
      intake::read_earlyoom_options(version, given, {memory.total, memory.swap_total}, findings);
  // Expressions of a fuzzer may take the C library exponential time and memory.
  if (!findings.errors.empty()) return;
  require(options.thresholds.mem_kill <= options.thresholds.mem_term + 1e-9);
  require(std::isfinite(options.thresholds.swap_term));
  const auto victim = rulesets::earlyoom_victim(processes, options);
  require(!victim || (*victim < processes.size() && processes[*victim].pid > 1));
  const std::int64_t ms = rulesets::earlyoom_sleep_ms(memory, options);
  require(ms >= 100 && ms <= 1000);
}

}  // namespace
}  // namespace forestall

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  forestall::run(text, forestall::rulesets::EarlyoomVersion::v1_7);
  forestall::run(text, forestall::rulesets::EarlyoomVersion::v1_9);
  return 0;
}
