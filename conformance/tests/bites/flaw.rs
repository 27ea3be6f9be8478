//! The bugs that the suite has to find, each of a class that real systems had.

/// One bug of a [`Broken`](crate::broken::Broken) provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// There is none: what shows that a case fails for the bug and not for the wrapper.
    None,

    // The life cycle.
    ClosedStillAnswers,
    LostOnReopen,
    NamespacesAreShared,
    SecondShutdownFails,
    HealthWrites,

    // Writing.
    BatchIsPartlyApplied,
    KeyIgnored,
    KeyReturnsFirstWhateverTheTrigger,
    UpdateOfUnknownSucceeds,
    UpdateMovesCreatedAt,
    MergeReplaces,
    ClearKeepsNull,
    EmptyContextIsAbsent,
    IfRevisionIgnored,
    RestoreMakesNewIds,
    DroppedBatchIsHalf,
    DroppedUpdateIsHalf,
    DroppedRestoreIsHalf,
    DroppedReadKeepsItsConnection,
    DroppedInitKeepsItsLock,
    BatchHasACap,
    UpdateLosesRaces,
    UpdateOfMetadataAloneIsDropped,
    NumbersAreFloats,
    TimesAreSeconds,
    SpacesAreFolded,
    BoundariesAreOne,
    LongSpacesAreRefused,
    ReadsLagBehind,

    // Reading.
    UnderIsRawPrefix,
    PrefixIsLike,
    PrefixIgnoresCase,
    GlobIsRegex,
    WithinIgnored,
    BeforeIsInclusive,
    LimitBeforeFilter,
    NumbersCompareAsText,
    LimitZeroIsNotSet,
    PagesEndAtTen,
    TiesInReverse,
    CursorForgetsTies,
    CursorIsAnOffset,
    ExcludeIgnored,
    StatusIgnoredInUnion,
    LimitTakesTheOldest,
    TimesForgottenUnderAPath,
    NotEqualNeedsTheField,
    FilterWithoutHitsFindsEverything,
    CursorEndsWithItsHandle,
    ExaminesWithoutEnd,

    // Documents and text.
    PutIgnoresAbsent,
    PutMovesCreatedAt,
    PutKeepsTheSpace,
    RemoveIgnoresMax,
    RemoveTakesTen,
    RemoveTakesIdsByPrefix,
    RemoveLeavesText,
    EmptyCollectionsAreListed,
    PutIgnoresTheRevision,
    RemovalsBothReport,
    RemovalIgnoresTheFilter,
    DroppedPutLosesTheOld,
    DroppedRemovalIsHalf,
    DroppedDocumentsAreEmpty,
    TextNeedsEveryWord,
    TextHitsEndAtTen,
    BackslashesHideWords,
    UnsupportedTextFindsEverything,

    // The plugin.
    PluginForgetsReadableSpaces,
    PluginIgnoresDryRun,
}
