#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/config_loader.h"
#include "common/base/config_text.h"
#include "common/base/config_values.h"
#include "tests/fakes/temp_dir.h"

namespace forebay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using testing::UnorderedElementsAre;

enum class Colour : std::uint8_t { kRed, kGreen };

/// A program with an option of each kind.
struct SampleConfig {
  std::string name;
  std::string place;
  std::vector<std::string> peers;
  std::string listen = "127.0.0.1:7441";
  std::string advertise;
  std::uint64_t memory = 512ULL << 20;
  std::uint64_t rate = 1'000'000;
  std::chrono::milliseconds patience = std::chrono::seconds(300);
  std::uint16_t threads = 4;
  std::uint32_t mode = 0644;
  bool loud = false;
  Colour colour = Colour::kRed;
};

ConfigSection SampleSection(SampleConfig& config) {
  ConfigSection section("sample", "A program.");
  section.Add("name", Text(config.name, "NAME"), "Its name.").Required();
  section.Add("place", Text(config.place, "PLACE"), "An argument.").Positional("PLACE");
  section.Add("peers", AddressList(config.peers), "The others.");
  section.Add("listen", OwnAddress(config.listen), "Where it is.");
  section.Add("advertise", Address(config.advertise), "What others are told.");
  section.Add("memory", Size(config.memory, 1024, 1ULL << 40), "Memory.");
  section.Add("rate", Rate(config.rate), "Rate.");
  section.Add("patience", TimeOrNone(config.patience, std::chrono::seconds(1)), "Patience.");
  section.Add("threads", Number(config.threads, 1, 64), "Threads.");
  section.Add("mode", Mode(config.mode), "Mode.");
  section.Add("loud", Switch(config.loud), "Noise.").Short("-l");
  section.Add("colour", Choice(config.colour, {{"red", Colour::kRed}, {"green", Colour::kGreen}}),
              "Colour.");
  section.finish = [&config](const Environment&) {
    std::vector<std::string> faults;
    if (config.loud && config.name == "mouse") faults.emplace_back("a mouse is not loud");
    return faults;
  };
  return section;
}

struct OtherConfig {
  std::uint64_t size = 1;
};

ConfigSection OtherSection(OtherConfig& config) {
  ConfigSection section("other", "Another program.");
  section.Add("size", Size(config.size), "A size.").Required();
  return section;
}

class ConfigTest : public testing::Test {
 protected:
  /// Loads with "--name x" in front, unless a test is about that.
  ConfigOutcome Load(std::vector<std::string> arguments, bool named = true) {
    if (named) arguments.insert(arguments.begin(), {"--name", "x"});
    ConfigSources sources{arguments, environment_, dir_ / "forebay.toml"};
    own_.clear();
    own_.push_back(SampleSection(config_));
    std::vector<ConfigSection> others;
    others.push_back(OtherSection(other_));
    return LoadConfig(sources, own_, others);
  }

  std::vector<std::string> Faults(std::vector<std::string> arguments, bool named = true) {
    return Load(std::move(arguments), named).faults;
  }

  void WriteFile(const std::string& text) { std::ofstream(dir_ / "forebay.toml") << text; }

  std::string Origin(std::string_view key) const {
    for (const ConfigOption& option : own_.front().options) {
      if (option.key == key) return option.origin;
    }
    return "no such key";
  }

  fakes::TempDir dir_;
  Environment environment_;
  SampleConfig config_;
  OtherConfig other_;
  std::vector<ConfigSection> own_;
};

TEST_F(ConfigTest, NothingGivenIsTheDefaults) {
  EXPECT_THAT(Faults({}), IsEmpty());
  EXPECT_EQ(config_.listen, "127.0.0.1:7441");
  EXPECT_EQ(config_.memory, 512ULL << 20);
  EXPECT_EQ(Origin("memory"), "default");
}

TEST_F(ConfigTest, EveryKindIsReadFromTheFile) {
  WriteFile(R"([sample]
place = "here"
peers = ["a:1", "[::1]:2"]
listen = "localhost:0"
advertise = "b:3"
memory = "1.5GiB"
rate = "3MB/s"
patience = "none"
threads = 7
mode = 0o600
loud = true
colour = "green"
)");
  EXPECT_THAT(Faults({}), IsEmpty());
  EXPECT_EQ(config_.place, "here");
  EXPECT_THAT(config_.peers, ElementsAre("a:1", "[::1]:2"));
  EXPECT_EQ(config_.listen, "localhost:0");
  EXPECT_EQ(config_.advertise, "b:3");
  EXPECT_EQ(config_.memory, 3ULL << 29);
  EXPECT_EQ(config_.rate, 3'000'000U);
  EXPECT_EQ(config_.patience, kForever);
  EXPECT_EQ(config_.threads, 7);
  EXPECT_EQ(config_.mode, 0600U);
  EXPECT_TRUE(config_.loud);
  EXPECT_EQ(config_.colour, Colour::kGreen);
  EXPECT_EQ(Origin("memory"), (dir_ / "forebay.toml") + ":6");
}

TEST_F(ConfigTest, EveryKindIsReadFromFlags) {
  EXPECT_THAT(Faults({"here", "--peers", "a:1,b:2", "--peers=c:3", "--memory", "2048",
                      "--rate=1KB/s", "--patience", "2h", "--threads=64", "--mode", "0640", "-l",
                      "--colour", "green", "--advertise", "d:4"}),
              IsEmpty());
  EXPECT_EQ(config_.place, "here");
  EXPECT_THAT(config_.peers, ElementsAre("a:1", "b:2", "c:3"));
  EXPECT_EQ(config_.memory, 2048U);
  EXPECT_EQ(config_.rate, 1000U);
  EXPECT_EQ(config_.patience, std::chrono::hours(2));
  EXPECT_EQ(config_.threads, 64);
  EXPECT_EQ(config_.mode, 0640U);
  EXPECT_TRUE(config_.loud);
  EXPECT_EQ(config_.colour, Colour::kGreen);
  EXPECT_EQ(Origin("place"), "argument PLACE");
  EXPECT_EQ(Origin("loud"), "flag --loud");
}

TEST_F(ConfigTest, FlagGoesBeforeEnvironmentBeforeFileBeforeDefault) {
  WriteFile("[sample]\nmemory = \"1MiB\"\nthreads = 1\nmode = \"0600\"\n");
  environment_ = {{"FOREBAY_SAMPLE_MEMORY", "2MiB"}, {"FOREBAY_SAMPLE_THREADS", "2"}};
  EXPECT_THAT(Faults({"--memory", "3MiB"}), IsEmpty());
  EXPECT_EQ(config_.memory, 3ULL << 20);
  EXPECT_EQ(config_.threads, 2);
  EXPECT_EQ(config_.mode, 0600U);
  EXPECT_EQ(config_.colour, Colour::kRed);
  EXPECT_EQ(Origin("memory"), "flag --memory");
  EXPECT_EQ(Origin("threads"), "environment FOREBAY_SAMPLE_THREADS");
  EXPECT_EQ(Origin("mode"), (dir_ / "forebay.toml") + ":4");
  EXPECT_EQ(Origin("colour"), "default");
}

TEST_F(ConfigTest, AListIsReplacedAsAWhole) {
  WriteFile("[sample]\npeers = [\"a:1\", \"b:1\"]\n");
  environment_ = {{"FOREBAY_SAMPLE_PEERS", "c:1,d:1"}};
  EXPECT_THAT(Faults({}), IsEmpty());
  EXPECT_THAT(config_.peers, ElementsAre("c:1", "d:1"));
}

TEST_F(ConfigTest, TheLastOfTwoEqualFlagsCounts) {
  EXPECT_THAT(Faults({"--memory", "1MiB", "--memory", "2MiB", "--loud", "--loud=false"}),
              IsEmpty());
  EXPECT_EQ(config_.memory, 2ULL << 20);
  EXPECT_FALSE(config_.loud);
}

TEST_F(ConfigTest, AllFaultsOfAllSourcesAreListedAtOnce) {
  const std::string file = dir_ / "forebay.toml";
  WriteFile("[sample]\nthreads = 65\nlistne = \"x\"\n[other]\nsize = \"big\"\n");
  environment_ = {{"FOREBAY_SAMPLE_MEMORY", "12Q"}, {"FOREBAY_SAMPLE_MEMRY", "1"}};
  EXPECT_THAT(
      Faults({"--colour", "grene", "--lsiten=x"}),
      UnorderedElementsAre(
          file + ":2: threads: \"65\" is not a whole number from 1 to 64",
          file + ":3: no option listne in [sample]; did you mean listen?",
          AllOf(StartsWith(file + ":5: size: \"big\" is not a size; "), EndsWith("or 1.5TiB")),
          StartsWith("environment FOREBAY_SAMPLE_MEMORY: memory: \"12Q\" is not a size; "),
          "environment FOREBAY_SAMPLE_MEMRY: no such option; did you mean FOREBAY_SAMPLE_MEMORY?",
          "flag --lsiten: no such flag; did you mean --listen?",
          "flag --colour: colour: \"grene\" is not one of red, green; did you mean green?"));
  EXPECT_EQ(config_.memory, 512ULL << 20) << "a bad value changes nothing";
}

TEST_F(ConfigTest, ARequiredOptionSaysWhereItCanBeGiven) {
  EXPECT_THAT(Faults({}, false),
              ElementsAre("name is not set: give --name NAME, the environment FOREBAY_SAMPLE_NAME, "
                          "or name under [sample] in the file"));
  EXPECT_THAT(Faults({"--name", ""}, false), ElementsAre(StartsWith("name is not set: ")));
  environment_ = {{"FOREBAY_SAMPLE_NAME", "x"}};
  EXPECT_THAT(Faults({}, false), IsEmpty());
}

TEST_F(ConfigTest, RangesNameTheirBounds) {
  EXPECT_THAT(Faults({"--memory", "1000"}), ElementsAre(EndsWith("\"1000\" is less than 1KiB")));
  EXPECT_THAT(Faults({"--memory", "2TiB"}), ElementsAre(EndsWith("\"2TiB\" is more than 1TiB")));
  EXPECT_THAT(Faults({"--patience", "10ms"}), ElementsAre(EndsWith("\"10ms\" is shorter than 1s")));
  EXPECT_THAT(Faults({"--mode", "0888"}),
              ElementsAre(EndsWith("is not a file mode; write it in octal, such as 0644")));
  EXPECT_THAT(Faults({"--loud=perhaps"}),
              ElementsAre(EndsWith("\"perhaps\" is not true or false")));
}

TEST_F(ConfigTest, WhereToListenIsAnIpAddress) {
  for (const char* address : {"0.0.0.0:7441", "[::]:7441", "10.1.2.3:7441", "localhost:7441", ""})
    EXPECT_THAT(Faults({"--listen", address}), IsEmpty()) << address;
  for (const char* address : {"example.org:7441", "10.1.2:7441", "10.1.2.300:7441"}) {
    EXPECT_THAT(Faults({"--listen", address}),
                ElementsAre(HasSubstr("names no IP address to listen on")));
  }
}

TEST_F(ConfigTest, MembersThatDoNotFitTogetherAreAFault) {
  EXPECT_THAT(Faults({"--name", "mouse", "--loud"}, false), ElementsAre("a mouse is not loud"));
}

TEST_F(ConfigTest, SectionsOfOthersAreCheckedAndNotRequired) {
  WriteFile("[other]\nsize = \"7KiB\"\n");
  environment_ = {{"FOREBAY_OTHER_SIZE", "not looked at"}};
  EXPECT_THAT(Faults({}), IsEmpty());
  WriteFile("[other]\nsiez = 1\n");
  EXPECT_THAT(Faults({}),
              ElementsAre(EndsWith(":2: no option siez in [other]; did you mean size?")));
}

TEST_F(ConfigTest, UnknownSectionsNameTheNearest) {
  WriteFile("[sampel]\nname = 1\n");
  EXPECT_THAT(Faults({}),
              ElementsAre(EndsWith(":1: no such section [sampel]; did you mean [sample]?")));
  WriteFile("memory = 1\n");
  EXPECT_THAT(
      Faults({}),
      ElementsAre(EndsWith(":1: memory stands outside of a section; write it below [sample]")));
  WriteFile("sample = 1\n");
  EXPECT_THAT(Faults({}), ElementsAre(HasSubstr(":1: sample is a section; ")));
}

TEST_F(ConfigTest, ValuesOfTheWrongShapeAreFaults) {
  WriteFile("[sample]\nmemory = [\"1MiB\"]\nname = 2024-01-01\n[sample.threads]\nx = 1\n");
  EXPECT_THAT(Faults({}),
              UnorderedElementsAre(EndsWith(":2: memory: takes one value, not a list"),
                                   HasSubstr(":3: name: is neither text nor a number"),
                                   HasSubstr(":4: threads: is neither text nor a number")));
}

TEST_F(ConfigTest, AFileThatIsNotTomlNamesTheLine) {
  WriteFile("[sample]\nthreads = 4\nmemory = = 5\n");
  EXPECT_THAT(Faults({}), ElementsAre(HasSubstr("forebay.toml:3: not TOML: ")));
}

TEST_F(ConfigTest, OnlyANamedFileMustExist) {
  EXPECT_THAT(Faults({}), IsEmpty());
  EXPECT_THAT(Faults({"--config", dir_ / "absent.toml"}),
              ElementsAre((dir_ / "absent.toml") + ": cannot be read: No such file or directory; "
                                                   "name a readable file with --config"));
  EXPECT_THAT(Faults({"--config", dir_.path()}), ElementsAre(HasSubstr(": cannot be read: ")));
  WriteFile("");
  EXPECT_THAT(Faults({"--config", dir_ / "forebay.toml"}), IsEmpty()) << "an empty file is a file";
}

TEST_F(ConfigTest, VariablesThatKubernetesMakesForAServiceAreNoFault) {
  environment_ = {{"FOREBAY_SAMPLE_SERVICE_HOST", "10.0.0.1"},
                  {"FOREBAY_SAMPLE_SERVICE_PORT_RPC", "7441"},
                  {"FOREBAY_SAMPLE_PORT", "tcp://10.0.0.1:7441"},
                  {"FOREBAY_SAMPLE_PORT_7441_TCP_ADDR", "10.0.0.1"}};
  EXPECT_THAT(Faults({}), IsEmpty());
}

TEST_F(ConfigTest, BrokenCommandLinesAreFaults) {
  EXPECT_THAT(Faults({"--memory"}), ElementsAre("flag --memory: needs a value"));
  EXPECT_THAT(Faults({"here", "there"}),
              ElementsAre("argument \"there\": not expected here; see --help"));
  EXPECT_THAT(Faults({"-x"}), ElementsAre(StartsWith("flag -x: no such flag; ")));
}

TEST_F(ConfigTest, TheCommandLineSaysWhatToDo) {
  EXPECT_EQ(Load({}).action, ConfigAction::kRun);
  EXPECT_EQ(Load({"--help"}).action, ConfigAction::kHelp);
  EXPECT_EQ(Load({"-h"}).action, ConfigAction::kHelp);
  EXPECT_EQ(Load({"--version"}).action, ConfigAction::kVersion);
  EXPECT_EQ(Load({"--print-config"}).action, ConfigAction::kPrintConfig);
  EXPECT_EQ(Load({"--check-config"}).action, ConfigAction::kCheckConfig);
}

TEST_F(ConfigTest, PrintedConfigurationSaysWhereEachValueCameFrom) {
  WriteFile("[sample]\nthreads = 9\n");
  ASSERT_THAT(Faults({"--peers", "a:1,b:2"}), IsEmpty());
  const std::string printed = PrintConfig(own_);
  EXPECT_THAT(printed, StartsWith("[sample]\n"));
  EXPECT_THAT(printed, testing::ContainsRegex("\nthreads = 9 +# .*/forebay\\.toml:2\n"));
  EXPECT_THAT(printed,
              testing::ContainsRegex("\npeers = \\[\"a:1\", \"b:2\"\\] +# flag --peers\n"));
  EXPECT_THAT(printed, testing::ContainsRegex("\nmemory = \"512MiB\" +# default\n"));
}

TEST_F(ConfigTest, PrintedConfigurationIsAFileWithTheSameMeaning) {
  ASSERT_THAT(Faults({"a \"quoted\" \\ place\n", "--peers", "a:1,b:2", "--patience", "none",
                      "--mode", "0600", "-l", "--rate", "5MB/s", "--colour", "green"}),
              IsEmpty());
  const std::string printed = PrintConfig(own_);
  WriteFile(printed);
  config_ = SampleConfig();
  ASSERT_THAT(Faults({}, false), IsEmpty());
  EXPECT_EQ(config_.place, "a \"quoted\" \\ place\n");
  EXPECT_THAT(config_.peers, ElementsAre("a:1", "b:2"));
  EXPECT_EQ(config_.patience, kForever);
  EXPECT_EQ(config_.mode, 0600U);
  EXPECT_TRUE(config_.loud);
  EXPECT_EQ(config_.rate, 5'000'000U);
  EXPECT_EQ(config_.colour, Colour::kGreen);
}

TEST_F(ConfigTest, HelpShowsEveryOptionWithItsDefault) {
  Load({});
  const std::string help = HelpText("sampler", "Samples.", own_);
  EXPECT_THAT(help, StartsWith("Usage: sampler [OPTIONS] --name NAME PLACE\n\nSamples.\n"));
  EXPECT_THAT(help, HasSubstr("  --name NAME\n      Its name.\n      Required.\n"));
  EXPECT_THAT(help, HasSubstr("  --memory SIZE\n      Memory.\n      Default: 512MiB.\n"));
  EXPECT_THAT(help, HasSubstr("  -l, --loud\n      Noise.\n      Default: false.\n"));
  EXPECT_THAT(help, HasSubstr("Default: none. May be repeated.\n"));
  for (const ConfigOption& option : own_.front().options) EXPECT_THAT(help, HasSubstr(option.help));
}

TEST(ProcessEnvironmentTest, HoldsWhatTheProcessWasStartedWith) {
  const Environment environment = ProcessEnvironment();
  ASSERT_TRUE(environment.contains("PATH"));
  EXPECT_FALSE(environment.at("PATH").empty());
}

TEST(Config, TwoReadingsDifferInTheirValuesAlone) {
  const auto read = [](SampleConfig& config, std::vector<std::string> arguments) {
    std::vector<ConfigSection> own = {SampleSection(config)};
    std::vector<ConfigSection> others;
    ConfigSources sources;
    sources.arguments = std::move(arguments);
    sources.default_file = "/nowhere/forebay.toml";
    EXPECT_THAT(LoadConfig(sources, own, others).faults, IsEmpty());
    return own;
  };
  SampleConfig first;
  SampleConfig second;
  const auto before = read(first, {"--name", "a", "here", "--threads", "8"});
  // A value that another source says is the same value.
  const auto now = read(second, {"--threads=8", "--name", "b", "here", "--memory", "512MiB", "-l"});
  EXPECT_THAT(ChangesBetween(before, before), IsEmpty());
  const std::vector<ConfigChange> changes = ChangesBetween(before, now);
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].section + "." + changes[0].key, "sample.name");
  EXPECT_EQ(changes[0].before + " " + changes[0].now, "\"a\" \"b\"");
  EXPECT_EQ(changes[1].key + " " + changes[1].before + " " + changes[1].now, "loud false true");
}

}  // namespace
}  // namespace forebay
