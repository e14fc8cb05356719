// SPDX-License-Identifier: Apache-2.0
#include "intake/compat_check.h"

#include <charconv>

namespace forestall::intake {
namespace {

using namespace std::chrono_literals;

// The minor version that introduced the current grace periods: kubelet 1.27.
constexpr int kNewGraceMinor = 27;

// The y of "1.y", "v1.y" and "1.y.z", with any suffix of a distribution after z.
KubeletMinor parse_version(std::string_view text) {
  if (text.starts_with('v')) text.remove_prefix(1);
  if (!text.starts_with("1.")) return std::nullopt;
  text.remove_prefix(2);
  int minor = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), minor);
  if (failure != std::errc{} || minor < 0) return std::nullopt;
  const bool ends = end == text.data() + text.size() || *end == '.' || *end == '-' || *end == '+';
  return ends ? KubeletMinor(minor) : std::nullopt;
}

void check_path(bool given, const std::string& path, const std::string& key, std::string& out,
                Report& report) {
  if (!given) return;
  if (!path.starts_with('/')) {
    report.error("filesystems." + key,
                 "'" + key + "' must be an absolute path, found '" + path + "'");
  }
  out = path;
}

}  // namespace

KubeletMinor check_compat(const v1::Compat& given, Compat& out, Report& report) {
  KubeletMinor minor;
  if (given.has_kubelet_version()) {
    minor = parse_version(given.kubelet_version());
    if (!minor) {
      report.error("compat.kubeletVersion",
                   "'kubeletVersion' must be a version like \"1.26\", found '" +
                       given.kubelet_version() + "'");
    } else if (*minor < kNewGraceMinor) {
      out.hard_grace = 0s;
      out.soft_grace_is_lesser = false;
    }
  }
  if (given.has_hard_grace()) {
    const auto grace = report.take(parse_duration_within(given.hard_grace(), 0s, 1min),
                                   "compat.hardGrace", "hardGrace");
    if (grace) out.hard_grace = *grace;
  }
  const auto take = [](bool has, bool value, bool& into) {
    if (has) into = value;
  };
  take(given.has_soft_grace_is_lesser(), given.soft_grace_is_lesser(), out.soft_grace_is_lesser);
  take(given.has_negative_grace_as_given(), given.negative_grace_as_given(),
       out.negative_grace_as_given);
  take(given.has_hard_at_once(), given.hard_at_once(), out.hard_at_once);
  take(given.has_inode_rank_subtracts_bytes(), given.inode_rank_subtracts_bytes(),
       out.inode_rank_subtracts_bytes);
  take(given.has_containerfs_from_second_pass(), given.containerfs_from_second_pass(),
       out.containerfs_from_second_pass);
  take(given.has_one_kill_until_cleanup(), given.one_kill_until_cleanup(),
       out.one_kill_until_cleanup);
  return minor;
}

void check_filesystems(const v1::Filesystems& given, FilesystemPlaces& out, Report& report) {
  check_path(given.has_nodefs(), given.nodefs(), "nodefs", out.nodefs, report);
  check_path(given.has_pod_logs(), given.pod_logs(), "podLogs", out.pod_logs, report);
  check_path(given.has_imagefs(), given.imagefs(), "imagefs", out.imagefs, report);
  check_path(given.has_containerfs(), given.containerfs(), "containerfs", out.containerfs, report);
  if (!given.has_runtime()) return;
  out.runtime = given.runtime();
  if (!out.runtime.starts_with("unix:///")) {
    report.error("filesystems.runtime",
                 "'runtime' must be a local endpoint like unix:///run/containerd/containerd.sock, "
                 "found '" +
                     out.runtime + "'");
  }
}

void check_oom_score_adj(const v1::Config& given, Config& out, Report& report) {
  if (!given.has_oom_score_adj()) return;
  const std::string& word = given.oom_score_adj();
  if (word != "observe" && word != "enforce") {
    report.error("oomScoreAdj", "'oomScoreAdj' must be observe or enforce, found '" + word + "'");
  }
  out.oom_score_adj = word == "enforce" ? OomScoreAdj::enforce : OomScoreAdj::observe;
}

}  // namespace forestall::intake
