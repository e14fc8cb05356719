// SPDX-License-Identifier: Apache-2.0
// Memory of a replay does not grow with its input: a million lines need what ten thousand need.
//
// Under AddressSanitizer a line takes 280 us, so the long input is a fiftieth as long. Its
// quarantine of freed memory is off, because it would grow with every line.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/unique_fd.h"
#include "support/agent_run.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

// `forestall replay -` with the test at both ends, so that its memory can be read after it has read
// everything and before it ends.
class LiveReplay {
 public:
  explicit LiveReplay(const std::string& config) {
    std::array<int, 2> in{}, out{};
    EXPECT_EQ(pipe2(in.data(), O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(out.data(), O_CLOEXEC), 0);
    const std::string program = forestall_executable();
    pid_ = fork();
    if (pid_ == 0) {
      setenv("ASAN_OPTIONS", "quarantine_size_mb=1", 0);
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      execl(program.c_str(), "forestall", "replay", "-", "-c", config.c_str(), nullptr);
      _exit(127);
    }
    in_.reset(in[1]);
    out_.reset(out[0]);
    close(in[0]);
    close(out[1]);
  }
  LiveReplay(const LiveReplay&) = delete;
  LiveReplay& operator=(const LiveReplay&) = delete;
  ~LiveReplay() {
    in_.reset();
    waitpid(pid_, nullptr, 0);
  }

  void write(const std::string& text) const {
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t size = ::write(in_.get(), text.data() + done, text.size() - done);
      ASSERT_GT(size, 0);
      done += static_cast<std::size_t>(size);
    }
  }
  // Reads its output until it contains `wanted`.
  void wait_for(const std::string& wanted) const {
    std::string printed;
    std::array<char, 4096> piece{};
    while (printed.find(wanted) == std::string::npos) {
      const ssize_t size = read(out_.get(), piece.data(), piece.size());
      ASSERT_GT(size, 0) << printed;
      printed.append(piece.data(), static_cast<std::size_t>(size));
    }
  }
  // VmHWM in KiB.
  [[nodiscard]] long peak() const {
    const std::string status = read_text("/proc/" + std::to_string(pid_) + "/status");
    return std::stol(status.substr(status.find("VmHWM:") + 6));
  }

 private:
  pid_t pid_ = -1;
  UniqueFd in_;
  UniqueFd out_;
};

std::string evaluate(std::int64_t number, const char* usage) {
  return "{\"atNs\":" + std::to_string(number) +
         ",\"node\":{\"capacityBytes\":4294967296,\"usageBytes\":" + usage +
         ",\"inactiveFileBytes\":0},\"workloads\":[{\"workload\":{\"podUid\":\"u-1\"}," +
         "\"usageBytes\":1073741824,\"inactiveFileBytes\":0,\"processes\":1}]}\n";
}

long peak_after(std::int64_t lines) {
  TempTree tree;
  tree.write("config.yaml", "evictionHard:\n  memory.available: 1Gi\n");
  const LiveReplay replay(tree / "config.yaml");
  std::string piece;
  for (std::int64_t i = 1; i <= lines; ++i) {
    piece += evaluate(i, "2147483648");
    if (piece.size() < (std::size_t{1} << 16)) continue;
    replay.write(piece);
    piece.clear();
  }
  replay.write(piece + evaluate(lines + 1, "4000000000"));
  replay.wait_for("evict podu-1");
  return replay.peak();
}

#ifdef __SANITIZE_ADDRESS__
constexpr std::int64_t kShort = 2'000;
constexpr std::int64_t kLong = 20'000;
#else
constexpr std::int64_t kShort = 10'000;
constexpr std::int64_t kLong = 1'000'000;
#endif

TEST(ReplayMemory, IsFlat) {
  const long short_input = peak_after(kShort);
  const long long_input = peak_after(kLong);
  RecordProperty("kib_after_short_input", std::to_string(short_input));
  RecordProperty("kib_after_long_input", std::to_string(long_input));
  EXPECT_LT(long_input - short_input, 4 * 1024) << short_input << " KiB, " << long_input << " KiB";
}

}  // namespace
}  // namespace forestall::test
