// SPDX-License-Identifier: Apache-2.0
// Tries every call of the kill path once, so that a seccomp filter or an LSM that forbids one is
// found at start and not when memory is short (earlyoom issue 315).
#include "kernel/process_probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>
#include <string>
#include <system_error>

#include "kernel/bpf_host.h"
#include "kernel/probe_child.h"
#include "kernel/process_ref.h"

namespace forestall::kernel {
namespace {

constexpr Bytes kChildMemory = kib(64);
constexpr Duration kPatience = std::chrono::seconds(2);

// EPERM and similar errors mean that the kernel has the call; any other error that it does not.
FeatureState state_of(int code) {
  const bool refused = code == EPERM || code == EACCES || code == EROFS || code == EBUSY;
  return refused ? FeatureState::refused : FeatureState::absent;
}

FeatureReport lacking(Feature feature, const Error& why) {
  return {feature, state_of(why.code), why.text()};
}

Result<void> ended_by_sigkill(ProbeChild& child) {
  const int status = TRY(child.wait_end(kPatience));
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return {};
  return error("the probe child did not die of SIGKILL");
}

// A child of the probe has the agent's own user, the victims have not.
Result<void> may_signal_other_users() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) return errno_error("capget", "self");
  const bool capable = (sets[CAP_TO_INDEX(CAP_KILL)].effective & CAP_TO_MASK(CAP_KILL)) != 0;
  if (!capable) {
    return Error{EPERM, fmt::format("without CAP_KILL only processes of user {} can be signalled",
                                    ::geteuid())};
  }
  // In a user namespace of its own, the capability does not reach the host's processes.
  // EACCES is a security module's rule about pid 1, which need not apply to the victims.
  if (::kill(1, 0) != 0 && errno != EACCES) return errno_error("kill", "1");
  return {};
}

Result<std::string> try_pidfd() {
  auto child = TRY(ProbeChild::start(kChildMemory));
  const ProcessRef ref = TRY(ProcessRef::open(child.pid()));
  TRY(ref.send_signal(SIGKILL));
  TRY(ended_by_sigkill(child));
  TRY(may_signal_other_users());
  return std::string("pidfd_open, pidfd_send_signal: a child was killed");
}

Result<std::string> try_mrelease() {
  auto child = TRY(ProbeChild::start(kChildMemory));
  const ProcessRef ref = TRY(ProcessRef::open(child.pid()));
  // For a process that is not dying the kernel returns EINVAL, after it has checked the
  // permissions.
  const auto before = ref.release_memory();
  if (!before.ok() && before.error().code != EINVAL) return before.error();
  TRY(ref.send_signal(SIGKILL));
  const auto after = ref.release_memory();
  // ESRCH: the process had exited already.
  if (!after.ok() && after.error().code != ESRCH && after.error().code != EAGAIN) {
    return after.error();
  }
  TRY(ended_by_sigkill(child));
  return std::string("process_mrelease: EINVAL before SIGKILL, accepted after");
}

// A cgroup for the probe, directly under the cgroup2 root; removed with this object.
class ProbeCgroup {
 public:
  static Result<ProbeCgroup> make(int root) {
    std::string name = "forestall-probe-" + std::to_string(getpid());
    if (mkdirat(root, name.c_str(), 0755) != 0) return errno_error("mkdirat", name);
    return ProbeCgroup(root, std::move(name));
  }
  ProbeCgroup(ProbeCgroup&& other) noexcept
      : root_(other.root_), name_(std::exchange(other.name_, {})) {}
  ProbeCgroup& operator=(ProbeCgroup&&) = delete;
  ~ProbeCgroup() {
    if (!name_.empty()) unlinkat(root_, name_.c_str(), AT_REMOVEDIR);
  }
  [[nodiscard]] std::string path() const { return "/" + name_; }

 private:
  ProbeCgroup(int root, std::string name) : root_(root), name_(std::move(name)) {}
  int root_;
  std::string name_;
};

Result<std::string> try_cgroup_kill(const CgroupTree& tree) {
  if (tree.unified_fd() < 0) return Error{ENOENT, "no cgroup2 hierarchy is mounted"};
  const auto made = TRY(ProbeCgroup::make(tree.unified_fd()));
  const auto cgroup = TRY(CgroupDir::open(tree.unified_fd(), made.path()));
  TRY(cgroup.open_file("cgroup.kill", O_WRONLY));
  auto child = TRY(ProbeChild::start(kChildMemory));
  TRY(cgroup.write("cgroup.procs", std::to_string(child.pid())));
  TRY(cgroup.write("cgroup.kill", "1"));
  TRY(ended_by_sigkill(child));
  return std::string("cgroup.kill: a child was killed in a cgroup made for it");
}

FeatureReport probe(Feature feature, const FeatureSet& disabled,
                    const std::function<Result<std::string>()>& attempt) {
  if (has(disabled, feature)) {
    return {feature, FeatureState::forced_off, "disabled by the operator"};
  }
  // A child of the probe is in the agent's own pid namespace; the victims are not.
  const auto visible = require_initial_pid_namespace();
  if (!visible.ok()) return lacking(feature, visible.error());
  const auto tried = attempt();
  if (!tried.ok()) return lacking(feature, tried.error());
  return {feature, FeatureState::in_use, *tried};
}

}  // namespace

std::vector<FeatureReport> probe_processes(const CgroupTree& tree, const FeatureSet& disabled) {
  // process_mrelease takes a pidfd and nothing else.
  const bool no_pidfd = has(disabled, Feature::pidfd);
  std::vector<FeatureReport> reports;
  reports.push_back(
      probe(Feature::cgroup_kill, disabled, [&tree] { return try_cgroup_kill(tree); }));
  reports.push_back(probe(Feature::pidfd, disabled, try_pidfd));
  if (no_pidfd && !has(disabled, Feature::process_mrelease)) {
    reports.push_back({Feature::process_mrelease, FeatureState::forced_off, "needs pidfd"});
  } else {
    reports.push_back(probe(Feature::process_mrelease, disabled, try_mrelease));
  }
  return reports;
}

}  // namespace forestall::kernel
