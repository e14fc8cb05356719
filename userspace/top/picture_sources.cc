// SPDX-License-Identifier: Apache-2.0
#include "top/picture_sources.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <time.h>

#include <cerrno>
#include <utility>

#include "cli/agent_socket.h"

namespace forestall::top {

PictureSources::PictureSources(const cli::Options& options, Config config, bool alone,
                               int cancel_fd)
    : socket_(cli::agent_socket(options)),
      alone_(alone),
      config_(std::move(config)),
      tree_(kernel::CgroupTree::discover(options.cgroup_mount)),
      agent_(socket_, cancel_fd),
      pressure_(tree_ ? &*tree_ : nullptr),
      processes_(tree_ ? &*tree_ : nullptr) {}

Result<void> PictureSources::read_alone(const std::string& ranking, internal::TopReport& report) {
  if (!tree_) return tree_.error();
  if (!own_) own_ = TRY(HostSource::create(*tree_, config_));
  return own_->read(ranking, report);
}

Result<internal::TopReport> PictureSources::read(const std::string& ranking,
                                                 const std::string& opened) {
  internal::TopReport report;
  utsname names{};
  if (::uname(&names) == 0) {
    report.set_node(names.nodename);
    report.set_kernel(names.release);
  }
  timespec wall{};
  ::clock_gettime(CLOCK_REALTIME, &wall);
  report.mutable_read_at()->set_seconds(wall.tv_sec);
  report.mutable_read_at()->set_nanos(static_cast<std::int32_t>(wall.tv_nsec));
  const auto first = alone_            ? Result<void>(error("--no-agent"))
                     : socket_.empty() ? Result<void>(error(cli::kSocketOff))
                                       : agent_.read(ranking, report);
  if (first) {
    agent_seen_ = true;
    // This host's samples are outdated: after a later loss of the agent they start anew.
    own_.reset();
  } else {
    if (first.error().code == ECANCELED) return first.error();
    const int code = first.error().code;
    const std::string why = code == ENOENT || code == ECONNREFUSED
                                ? fmt::format("none serves gRPC at {}", socket_)
                                : first.error().text();
    report.set_agent_problem(agent_seen_ ? "connection lost, reconnecting: " + why : why);
    TRY(read_alone(ranking, report));
  }
  const MonotonicTime now = SystemClock().now();
  report.set_at_ns(to_ns(now));
  pressure_.read(now, report);
  if (!opened.empty()) processes_.read(opened, report);
  return report;
}

}  // namespace forestall::top
