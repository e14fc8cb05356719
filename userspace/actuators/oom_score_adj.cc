// SPDX-License-Identifier: Apache-2.0
#include "actuators/oom_score_adj.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>

#include "kernel/cgroup_processes.h"
#include "kernel/process_ref.h"

namespace forestall::actuators {
namespace {

// Text of a small file in an open directory.
Result<std::string> read_at(int directory, const char* name) {
  const UniqueFd file(::openat(directory, name, O_RDONLY | O_CLOEXEC));
  if (!file) return errno_error("open", name);
  std::array<char, 1024> text{};
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size < 0) return errno_error("read", name);
  return std::string(text.data(), static_cast<std::size_t>(size));
}

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

Result<void> write_value(int directory, std::int64_t value) {
  const UniqueFd file(::openat(directory, "oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (!file) return errno_error("open", "oom_score_adj");
  const std::string text = std::to_string(value);
  if (::write(file.get(), text.data(), text.size()) < 0) {
    return errno_error("write", "oom_score_adj");
  }
  return {};
}

class ContainerCheck {
 public:
  ContainerCheck(const ExpectedOomScoreAdj& expected, const kernel::CgroupDir& cgroup,
                 std::vector<pid_t> members, bool enforce, const std::string& proc,
                 std::vector<OomScoreAdjFinding>& findings)
      : expected_(expected),
        cgroup_(cgroup),
        members_(std::move(members)),
        enforce_(enforce),
        proc_(proc),
        findings_(findings) {}

  void run() {
    for (const pid_t pid : members_) check(pid);
  }

 private:
  void check(pid_t pid) {
    const std::string path = proc_ + "/" + std::to_string(pid);
    const UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return;  // the process has exited
    const auto stat = read_at(directory.get(), "stat");
    const auto value_text = read_at(directory.get(), "oom_score_adj");
    if (!stat.ok() || !value_text.ok()) return;
    const auto parsed = kernel::parse_process_stat(*stat);
    const auto value = number_in(*value_text);
    if (!parsed.ok() || !value || parsed->kernel_thread) return;
    const bool main_process = !std::ranges::binary_search(members_, parsed->parent);
    if (main_process ? *value == expected_.value : *value >= expected_.value) return;
    OomScoreAdjFinding finding{expected_.container, pid,   *value,
                               expected_.value,     false, std::nullopt};
    if (enforce_) correct(directory.get(), finding);
    findings_.push_back(std::move(finding));
  }

  // The members are read again after the directory was opened: if the pid is listed now and the
  // directory still works, it is the same process.
  void correct(int directory, OomScoreAdjFinding& finding) const {
    const auto now = kernel::list_processes(cgroup_);
    if (!now.ok() || !std::ranges::binary_search(now->pids, finding.pid)) return;
    if (!read_at(directory, "stat").ok()) return;
    const auto written = write_value(directory, finding.expected);
    if (written.ok()) {
      finding.corrected = true;
    } else {
      finding.failure = written.error().in(finding.container);
    }
  }

  const ExpectedOomScoreAdj& expected_;
  const kernel::CgroupDir& cgroup_;
  const std::vector<pid_t> members_;
  const bool enforce_;
  const std::string& proc_;
  std::vector<OomScoreAdjFinding>& findings_;
};

}  // namespace

std::vector<OomScoreAdjFinding> check_oom_score_adj(const kernel::CgroupTree& tree,
                                                    std::span<const ExpectedOomScoreAdj> expected,
                                                    bool enforce, const std::string& proc) {
  std::vector<OomScoreAdjFinding> findings;
  for (const ExpectedOomScoreAdj& each : expected) {
    const auto cgroup = tree.open(each.cgroup);
    if (!cgroup.ok()) continue;
    auto members = kernel::list_processes(*cgroup);
    if (!members.ok()) continue;
    ContainerCheck(each, *cgroup, std::move(members->pids), enforce, proc, findings).run();
  }
  return findings;
}

}  // namespace forestall::actuators
