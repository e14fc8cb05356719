// SPDX-License-Identifier: Apache-2.0
// `forestall demo`: what it leaves behind, and what it needs.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "base/unique_fd.h"
#include "kernel/cgroup_tree.h"
#include "support/agent_run.h"
#include "support/child.h"
#include "support/program.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

using testing::HasSubstr;

bool may_execute(uid_t user, const std::string& program) {
  Child child([&] {
    if (::setgroups(0, nullptr) != 0 || ::setgid(user) != 0 || ::setuid(user) != 0) return 2;
    return ::access(program.c_str(), X_OK) == 0 ? 0 : 1;
  });
  return child.wait_exit() && WEXITSTATUS(child.reap()) == 0;
}

// A directory that is watched for new entries.
class NewEntries {
 public:
  explicit NewEntries(const std::string& directory)
      : fd_(::inotify_init1(IN_CLOEXEC)),
        watching_(::inotify_add_watch(fd_.get(), directory.c_str(), IN_CREATE) >= 0) {}
  // Waits for an entry whose name begins with `prefix`; empty if there is none.
  std::string wait(const std::string& prefix) {
    alignas(inotify_event) std::array<char, 4096> buffer{};
    pollfd ready{fd_.get(), POLLIN, 0};
    while (watching_ && ::poll(&ready, 1, 60'000) == 1) {
      const ssize_t size = ::read(fd_.get(), buffer.data(), buffer.size());
      for (ssize_t at = 0; at < size;) {
        const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
        const std::string name = event->len > 0 ? event->name : "";
        if (name.starts_with(prefix)) return name;
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      }
    }
    return "";
  }

 private:
  UniqueFd fd_;
  bool watching_;
};

class Demo : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0)
      GTEST_SKIP() << "not applicable: needs root; runs as root, as in CI and the VM tests";
    ASSERT_TRUE(tree_.ok()) << tree_.error().text();
  }
  [[nodiscard]] Child start(uid_t user = 0) const {
    return Child([&, user] {
      if (user != 0 && (::setgroups(0, nullptr) != 0 || ::setgid(user) != 0 || ::setuid(user) != 0))
        return 126;
      ::setenv("TMPDIR", (directory_ / "").c_str(), 1);
      const int err = ::open(errors().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
      return run_program({forestall_executable(), "demo"}, ::open("/dev/null", O_WRONLY), err);
    });
  }
  [[nodiscard]] std::string errors() const { return directory_ / "errors"; }
  [[nodiscard]] static std::string cgroup_of(const Child& demo) {
    return "forestall-demo-" + std::to_string(demo.pid());
  }
  [[nodiscard]] bool has_cgroup(const Child& demo) const {
    return tree_->open("/" + cgroup_of(demo)).ok();
  }
  void expect_removed(Child& demo, int signal) const {
    ASSERT_EQ(::kill(demo.pid(), signal), 0);
    ASSERT_TRUE(demo.wait_exit());
    EXPECT_FALSE(has_cgroup(demo));
    const int status = demo.reap();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
    EXPECT_THAT(read_text(errors()), HasSubstr("interrupted; its cgroups and processes"));
  }

  const TempTree directory_;
  const Result<kernel::CgroupTree> tree_ = kernel::CgroupTree::discover();
};

TEST_F(Demo, InterruptWhileItCreatesCgroupsRemovesThem) {
  NewEntries cgroups(tree_->memory_mount());
  Child demo = start();
  ASSERT_EQ(cgroups.wait(cgroup_of(demo)), cgroup_of(demo));
  expect_removed(demo, SIGINT);
}

TEST_F(Demo, InterruptWhileItsAgentStartsRemovesItsCgroups) {
  NewEntries directories(directory_ / "");
  Child demo = start();
  const std::string name = directories.wait("forestall-demo-");
  ASSERT_FALSE(name.empty());
  NewEntries files(directory_ / name);
  if (::access((directory_ / (name + "/agent.log")).c_str(), F_OK) != 0) {
    ASSERT_EQ(files.wait("agent.log"), "agent.log");
  }
  expect_removed(demo, SIGTERM);
  EXPECT_NE(::access((directory_ / name).c_str(), F_OK), 0);
}

TEST_F(Demo, AUserWithoutPermissionReadsWhatIsNeeded) {
  // Readable by this user: the program and the error file.
  ASSERT_EQ(::chmod((directory_ / "").c_str(), 0777), 0);
  if (!may_execute(65534, forestall_executable())) {
    GTEST_SKIP() << "not applicable: user 65534 cannot reach " << forestall_executable()
                 << "; runs where the tree is not in root's home, as in the VM tests";
  }
  Child demo = start(65534);
  ASSERT_TRUE(demo.wait_exit());
  EXPECT_EQ(WEXITSTATUS(demo.reap()), 1);
  const std::string text = read_text(errors());
  EXPECT_THAT(text, HasSubstr("which user 65534 may not do; run it as root: sudo forestall demo"));
  EXPECT_THAT(text, testing::Not(HasSubstr("libcgroup")));
}

}  // namespace
}  // namespace forestall::test
